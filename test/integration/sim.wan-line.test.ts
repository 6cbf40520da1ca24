import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { WanProxy } from '../../src/sim/wan.js';
import type { WanFaults } from '../../src/sim/wan-faults.js';
import { until } from '../helpers/wait.js';

interface End {
  readonly socket: Socket;
  received: Buffer;
  ended: boolean;
  closed: boolean;
  errorCode: string;
}

function watch(socket: Socket): End {
  const end: End = { socket, received: Buffer.alloc(0), ended: false, closed: false, errorCode: '' };
  socket.on('data', (chunk) => {
    end.received = Buffer.concat([end.received, chunk]);
  });
  socket.on('end', () => {
    end.ended = true;
  });
  socket.on('error', (error: NodeJS.ErrnoException) => {
    end.errorCode = error.code ?? '';
  });
  socket.on('close', () => {
    end.closed = true;
  });
  return end;
}

/** A server whose ends of the connections can be looked at, and a line to it. */
async function open(t: TestContext, faults: Partial<WanFaults> = {}) {
  const ends: End[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => ends.push(watch(socket)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const wan = await WanProxy.open({ to: { host: '127.0.0.1', port }, faults });
  t.after(async () => {
    await wan.close();
    for (const { socket } of ends) socket.destroy();
    server.close();
  });
  const dial = async () => {
    const end = watch(connect({ port: wan.port, host: wan.host, allowHalfOpen: true }));
    t.after(() => end.socket.destroy());
    await once(end.socket, 'connect');
    return end;
  };
  const pair = async () => {
    const n = ends.length;
    const near = await dial();
    await until('the far end', () => ends.length > n);
    return { near, far: ends[n]! };
  };
  return { wan, dial, pair, ends };
}

test('bytes pass unchanged both ways, and each end of stream by itself', async (t) => {
  const { wan, pair } = await open(t);
  const { near, far } = await pair();
  const up = Buffer.alloc(3_000_000, 'up');
  const down = Buffer.alloc(2_000_000, 'down');
  near.socket.end(up);
  far.socket.write(down);
  await until('both', () => far.ended && near.received.length === down.length);
  assert.ok(far.received.equals(up) && near.received.equals(down));
  assert.equal(near.ended, false);
  far.socket.end('last');
  await until('closed', () => near.ended && wan.stats().connections === 0);
  assert.equal(near.received.subarray(-4).toString(), 'last');
  assert.deepEqual([wan.stats().bytesUp, wan.stats().bytesDown], [up.length, down.length + 4]);
});

test('latency delays every byte and keeps their order, also when it falls', async (t) => {
  const { wan, pair } = await open(t, { latencyMs: 250 });
  const { near, far } = await pair();
  const sentMono = performance.now();
  near.socket.write('slow ');
  await until('the line has it', () => wan.stats().onTheWay === 5);
  await wan.set({ latencyMs: 0 });
  near.socket.write('fast');
  await until('both', () => far.received.length === 9);
  assert.equal(far.received.toString(), 'slow fast');
  assert.ok(performance.now() - sentMono >= 249);
});

test('a narrow line takes its time, whichever connection uses it', async (t) => {
  const { pair } = await open(t, { kbps: 400 });
  const startMono = performance.now();
  const pairs = [await pair(), await pair()];
  for (const { near } of pairs) near.socket.write(Buffer.alloc(10_000));
  await until('all', () => pairs.every(({ far }) => far.received.length === 10_000));
  // 20 000 bytes at 50 bytes a millisecond.
  assert.ok(performance.now() - startMono >= 399);
});

test('a black hole: nobody hears of it, and when it is gone the bytes on their way arrive', async (t) => {
  const { wan, pair, dial, ends } = await open(t);
  const { near, far } = await pair();
  await wan.set({ cut: 'blackhole' });
  near.socket.write('up');
  far.socket.write('down');
  const late = await dial();
  late.socket.write('stale');
  const gaveUp = await dial();
  gaveUp.socket.end('stale');
  await until('the one that gave up is forgotten', () => wan.stats().connections === 2);
  assert.deepEqual(
    [near.received.length, far.received.length, near.closed, far.closed, ends.length],
    [0, 0, false, false, 1],
  );
  await wan.set({ cut: null });
  await until('healed', () => near.received.toString() === 'down' && far.received.toString() === 'up');
  await until('the late one is reset', () => late.closed);
  assert.equal(late.errorCode, 'ECONNRESET');
  assert.equal(ends.length, 1);
  const next = await pair();
  next.near.socket.write('x');
  await until('a new one works', () => next.far.received.length === 1);
});

test('an end that breaks off in the black hole is heard of when the line is back', async (t) => {
  const { wan, pair } = await open(t);
  const { near, far } = await pair();
  await wan.set({ cut: 'blackhole' });
  near.socket.resetAndDestroy();
  await until('this side is gone', () => near.closed);
  assert.equal(far.closed, false);
  await wan.set({ cut: null });
  await until('the far end hears', () => far.closed);
  assert.equal(far.errorCode, 'ECONNRESET');
});

test('a cut by reset: open connections are reset at both ends, new ones refused, and the port comes back', async (t) => {
  const { wan, pair, dial } = await open(t);
  const { port } = wan;
  const { near, far } = await pair();
  await wan.set({ cut: 'reset' });
  await until('both ends', () => near.closed && far.closed);
  assert.deepEqual([near.errorCode, far.errorCode], ['ECONNRESET', 'ECONNRESET']);
  await assert.rejects(dial(), { code: 'ECONNREFUSED' });
  await wan.set({ cut: null });
  assert.equal(wan.port, port);
  const next = await pair();
  next.far.socket.write('x');
  await until('a new one works', () => next.near.received.length === 1);
});

test('a stalled direction delivers nothing while the other does, and its sender feels it', async (t) => {
  const { wan, pair } = await open(t, { stall: 'up' });
  const { near, far } = await pair();
  const much = Buffer.alloc(30_000_000, 1);
  near.socket.write(much);
  far.socket.write('down');
  await until('down', () => near.received.toString() === 'down');
  assert.equal(far.received.length, 0);
  assert.ok(near.socket.writableLength > 0, 'back-pressure reaches the sender');
  await wan.set({ stall: null });
  await until('all of it', () => far.received.length === much.length, 30_000);
});

test('a cut in the middle of a packet: exactly so many bytes, then a reset at both ends', async (t) => {
  const { wan, pair } = await open(t);
  for (const direction of ['up', 'down'] as const) {
    const { near, far } = await pair();
    const [sender, receiver] = direction === 'up' ? [near, far] : [far, near];
    sender.socket.write('12345');
    await until('the first', () => receiver.received.length === 5);
    wan.cutAfter(direction, 3);
    sender.socket.write('abcdefgh');
    await until('the end of both', () => sender.closed && (receiver.closed || receiver.ended));
    assert.equal(receiver.received.toString(), '12345abc');
    assert.equal(sender.errorCode, 'ECONNRESET');
    const next = await pair();
    const [nextSender, nextReceiver] = direction === 'up' ? [next.near, next.far] : [next.far, next.near];
    nextSender.socket.write('not cut again');
    await until('whole', () => nextReceiver.received.length === 13);
  }
});

test('a tap sees each piece, may change or swallow it, and comes off', async (t) => {
  const { wan, pair } = await open(t);
  const { near, far } = await pair();
  const seen: string[] = [];
  wan.tap((direction, chunk) => {
    seen.push(`${direction} ${chunk}`);
    return chunk.toString() === 'b' ? null : Buffer.from(chunk.toString().toUpperCase());
  });
  for (const piece of ['a', 'b', 'c']) {
    near.socket.write(piece);
    await until(piece, () => seen.includes(`up ${piece}`));
  }
  wan.tap(null);
  near.socket.write('d');
  await until('d', () => far.received.toString() === 'ACd');
  assert.deepEqual(seen, ['up a', 'up b', 'up c']);
});

test('a reset now hits what is open, and a far end that is not there resets the caller', async (t) => {
  const { wan, pair } = await open(t);
  const { near, far } = await pair();
  wan.reset();
  await until('both', () => near.closed && far.closed);
  const nowhere = await WanProxy.open({ to: { host: '127.0.0.1', port: 1 } });
  t.after(() => nowhere.close());
  const caller = watch(connect(nowhere.port, nowhere.host));
  await until('the caller is reset', () => caller.closed);
  assert.equal(nowhere.stats().unreachable, 1);
});
