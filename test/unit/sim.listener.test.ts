import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Listener, resetSocket } from '../../src/sim/listener.js';
import { until } from '../helpers/wait.js';

async function open(t: TestContext) {
  const accepted: Socket[] = [];
  const options = { host: '127.0.0.1', port: 0, connectionsMax: 2 };
  const listener = await Listener.open(options, (socket) => accepted.push(socket));
  t.after(() => listener.close());
  const dial = async () => {
    const socket = connect(listener.port, listener.host);
    t.after(() => socket.destroy());
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  };
  return { listener, accepted, dial };
}

test('a socket with unsent bytes and a FIN behind them can be reset, and the listener closed', async (t) => {
  const { listener, accepted, dial } = await open(t);
  const deaf = await dial();
  deaf.pause();
  await until('accepted', () => accepted.length === 1);
  const [socket] = accepted;
  socket!.end(Buffer.alloc(50_000_000));
  await until('the FIN waits', () => socket!.writableEnded);
  assert.equal(socket!.writableFinished, false);
  resetSocket(socket!);
  await until('closed', () => listener.sockets.size === 0);
  await dial().then((second) => second.pause());
  await until('accepted', () => accepted.length === 2);
  accepted[1]!.write(Buffer.alloc(50_000_000));
  await listener.close();
  assert.equal(listener.sockets.size, 0);
});

test('present, absent, and present in one breath end in the last of them', async (t) => {
  const { listener, dial } = await open(t);
  const kept = await dial();
  await until('accepted', () => listener.sockets.size === 1);
  await Promise.all([listener.setPresent(false), listener.setPresent(true), listener.setPresent(false)]);
  await assert.rejects(dial(), { code: 'ECONNREFUSED' });
  assert.equal(kept.destroyed, false);
  await listener.setPresent(true);
  await dial();
});

test('whoever asks the kernel for any port does not get that of an absent listener', async (t) => {
  const [{ listener }, other] = [await open(t), await open(t)];
  assert.notEqual(listener.port, other.listener.port);
  const range = '/proc/sys/net/ipv4/ip_local_port_range';
  const first = existsSync(range) ? Number.parseInt(readFileSync(range, 'utf8'), 10) : 49_152;
  assert.ok(listener.port < first && listener.port > 1_024, `port ${listener.port}, the kernel's begin at ${first}`);
});

test('a port that is taken is refused with what was asked for', async (t) => {
  const { listener } = await open(t);
  await assert.rejects(
    Listener.open({ host: '127.0.0.1', port: listener.port, connectionsMax: 1 }, () => {}),
    { code: 'listen.failed', values: { host: '127.0.0.1', port: listener.port } },
  );
});

test('connections beyond the limit are closed as they come', async (t) => {
  const { listener, dial } = await open(t);
  await dial();
  await dial();
  const third = await dial();
  await once(third, 'close');
  assert.equal(listener.sockets.size, 2);
});
