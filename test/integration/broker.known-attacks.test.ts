/** What has brought down other brokers: packets that end too early, and subscriptions that change under a publish. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import mqtt, { type Packet } from 'mqtt-packet';
import { openPlant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

const five = { protocolVersion: 5 } as const;

const CONNECT = mqtt.generate({
  cmd: 'connect',
  protocolId: 'MQTT',
  protocolVersion: 5,
  clientId: 'cut',
  clean: true,
  keepalive: 30,
  properties: { sessionExpiryInterval: 30, receiveMaximum: 5, userProperties: { a: 'b' } },
  will: { topic: 'w', payload: Buffer.from('x'), qos: 1, retain: false, properties: { willDelayInterval: 3 } },
  username: 'u',
  password: Buffer.from('p'),
} as Packet);
const SUBSCRIBE = mqtt.generate(
  {
    cmd: 'subscribe',
    messageId: 1,
    subscriptions: [{ topic: 'a/b', qos: 1 }],
    properties: { subscriptionIdentifier: 300, userProperties: { a: 'b' } },
  } as Packet,
  five,
);
const PUBLISH = mqtt.generate(
  {
    cmd: 'publish',
    messageId: 1,
    topic: 'a/b',
    payload: '',
    qos: 1,
    dup: false,
    retain: false,
    properties: { messageExpiryInterval: 9, contentType: 't', userProperties: { a: 'b' } },
  } as Packet,
  five,
);

/** The packet with its body ended after each byte, and a length that says so. All bodies are shorter than 128 bytes. */
function endedEarly(packet: Buffer): Buffer[] {
  assert.ok(packet.length < 130 && packet[1] === packet.length - 2);
  return Array.from({ length: packet.length - 2 }, (_, length) =>
    Buffer.concat([Buffer.from([packet[0] as number, length]), packet.subarray(2, 2 + length)]),
  );
}

test('a packet that ends too early, at whatever byte, ends its connection and nothing else', async (t) => {
  const plant = await openPlant(t);
  const bystander = await RawClient.connect(t, plant.port, 'bystander');
  for (const bytes of endedEarly(CONNECT)) {
    const raw = await RawClient.open(t, plant.port, 5);
    raw.socket.write(bytes);
    await raw.gone();
    assert.notEqual((raw.packets[0] as { reasonCode?: number } | undefined)?.reasonCode, 0);
  }
  for (const bytes of [...endedEarly(SUBSCRIBE), ...endedEarly(PUBLISH)]) {
    const raw = await RawClient.connect(t, plant.port, 'cut', { version: 5 });
    raw.socket.write(bytes);
    await raw.gone();
  }
  await bystander.ping();
  const { clients, subscriptions, received } = plant.broker.status();
  assert.deepEqual([clients, subscriptions, received], [1, 0, 0]);
  const good = await RawClient.connect(t, plant.port, 'cut', { version: 5 });
  good.socket.write(Buffer.concat([SUBSCRIBE, PUBLISH]));
  await good.next('puback');
  assert.equal((await good.next('publish')).topic, 'a/b');
});

test('clients that subscribe, unsubscribe and die while messages pass leave nothing behind, and nobody misses one', async (t) => {
  const plant = await openPlant(t);
  const kept = { version: 5, clean: false, properties: { sessionExpiryInterval: 60 } };
  const bystander = await RawClient.connect(t, plant.port, 'bystander', kept);
  bystander.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'a/#', qos: 1 }] });
  await bystander.next('suback');
  const total = 1_000;
  const writer = await RawClient.connect(t, plant.port, 'writer', { version: 5 });
  const writing = (async () => {
    for (let n = 0; n < total; n++) {
      writer.publish('a/b', `${n}`, 1, (n % 60_000) + 1);
      if (n % 20 === 19) for (let i = 0; i < 20; i++) await writer.next('puback');
    }
  })();
  const churning = (async () => {
    for (let round = 0; round < 100; round++) {
      // Some keep a session, and some come back to it.
      const raw = await RawClient.connect(t, plant.port, `churn${round % 7}`, round % 2 ? kept : { version: 5 });
      const filters = ['#', 'a/+', 'a/b', '$share/g/a/b', `a/b/${round}`];
      raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: filters.map((topic) => ({ topic, qos: round % 3 })) });
      raw.send({ cmd: 'unsubscribe', messageId: 2, unsubscriptions: filters.slice(round % 5) });
      if (round % 3 === 0) await raw.next('unsuback');
      raw.socket.destroy();
    }
  })();
  const seen: string[] = [];
  while (seen.length < total) {
    const { payload, messageId } = await bystander.next('publish');
    seen.push(String(payload));
    bystander.send({ cmd: 'puback', messageId });
  }
  await Promise.all([writing, churning]);
  assert.deepEqual(
    seen,
    Array.from({ length: total }, (_, n) => `${n}`),
  );
  for (let n = 0; n < 7; n++) {
    const last = await RawClient.connect(t, plant.port, `churn${n}`, { version: 5 });
    last.send({ cmd: 'disconnect' });
  }
  await until('they have gone', () => plant.broker.status().clients === 2);
  const { sessions, subscriptions } = plant.broker.status();
  assert.deepEqual([sessions, subscriptions], [2, 1]);
  await until('their queues have gone', () => plant.broker.status().queuedRows === 0);
});
