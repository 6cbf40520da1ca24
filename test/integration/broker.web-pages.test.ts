import assert from 'node:assert/strict';
import { test } from 'node:test';
import mqtt, { type Packet } from 'mqtt-packet';
import { WebSocket } from 'ws';
import { openPlant, type Plant } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

const CONNECT = mqtt.generate({
  cmd: 'connect',
  protocolId: 'MQTT',
  protocolVersion: 4,
  clientId: 'page',
  clean: true,
  keepalive: 0,
} as Packet);

async function openWeb(t: Parameters<typeof openPlant>[0], origins?: readonly string[]): Promise<Plant> {
  return openPlant(t, { listeners: [{ url: 'ws://127.0.0.1:0/mqtt', anonymous: true, origins }] });
}

/** The status of the answer to a page of `origin`: 101 is the way in. */
async function knock(url: string, origin: string | undefined): Promise<number | undefined> {
  const socket = new WebSocket(url, ['mqtt'], origin === undefined ? {} : { origin });
  try {
    return await new Promise((resolve, reject) => {
      socket.on('open', () => resolve(101));
      socket.on('unexpected-response', (_request, answer) => resolve(answer.statusCode));
      socket.on('error', reject);
    });
  } finally {
    socket.on('error', () => {});
    socket.terminate();
  }
}

test('without origins, pages of the same host and programs may connect, and no others', async (t) => {
  const { url } = await openWeb(t);
  for (const [origin, status] of [
    [undefined, 101],
    ['http://127.0.0.1:8080', 101],
    ['https://evil.example', 403],
    ['http://127.0.0.1.evil.example', 403],
    ['null', 403],
  ] as const)
    assert.equal(await knock(url, origin), status, origin);
});

test('with origins, exactly those', async (t) => {
  const named = await openWeb(t, ['https://hmi.plant']);
  assert.equal(await knock(named.url, 'https://hmi.plant'), 101);
  for (const origin of ['http://hmi.plant', 'https://hmi.plant:444', 'http://127.0.0.1:8080'])
    assert.equal(await knock(named.url, origin), 403, origin);
  const any = await openWeb(t, ['*']);
  assert.equal(await knock(any.url, 'https://evil.example'), 101);
});

test('[MQTT-6.0.0-1] a text frame ends the connection, and what it said is not done', async (t) => {
  const plant = await openWeb(t);
  const socket = new WebSocket(plant.url, ['mqtt']);
  t.after(() => socket.terminate());
  await new Promise((resolve) => socket.on('open', resolve));
  const answers: unknown[] = [];
  socket.on('message', (bytes) => answers.push(bytes));
  const closed = new Promise((resolve) => socket.on('close', resolve));
  // A CONNECT of ASCII alone could pass for text.
  socket.send(CONNECT.toString('latin1'), { binary: false });
  await closed;
  assert.deepEqual(answers, []);
});

test('[MQTT-6.0.0-2] packets need not be aligned with frames, and a frame above the limit ends the connection', async (t) => {
  const plant = await openWeb(t);
  const socket = new WebSocket(plant.url, ['mqtt']);
  t.after(() => socket.terminate());
  assert.equal(await new Promise((resolve) => socket.on('open', () => resolve(socket.protocol))), 'mqtt');
  const answers: Buffer[] = [];
  socket.on('message', (bytes: Buffer) => answers.push(bytes));
  const ping = Buffer.from([0xc0, 0]);
  for (const part of [CONNECT.subarray(0, 5), Buffer.concat([CONNECT.subarray(5), ping, ping.subarray(0, 1)])])
    socket.send(part);
  socket.send(ping.subarray(1));
  await until('CONNACK and two answers', () =>
    Buffer.concat(answers).equals(Buffer.from([0x20, 2, 0, 0, 0xd0, 0, 0xd0, 0])),
  );
  const code = new Promise((resolve) => socket.on('close', resolve));
  // The length that it announces is longer than what follows.
  socket.send(Buffer.concat([Buffer.from([0x30, 0xff, 0xff, 0x3f]), Buffer.alloc(2 * 1024 * 1024)]));
  await code;
  await until('it is gone', () => plant.broker.status().clients === 0);
});
