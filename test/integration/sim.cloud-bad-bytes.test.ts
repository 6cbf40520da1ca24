import assert from 'node:assert/strict';
import { test } from 'node:test';
import { generate, type Packet } from 'mqtt-packet';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { randomFrom } from '../../src/sim/random.js';
import { until } from '../helpers/wait.js';
import { RawMqttClient } from './sim.raw-mqtt-client.js';

const five = { protocolVersion: 5 } as const;
const CONNECT = generate({ cmd: 'connect', clientId: 'fuzz', clean: true, protocolVersion: 5 });
const PACKETS: Buffer[] = (
  [
    { cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'a/#', qos: 2 }] },
    { cmd: 'unsubscribe', messageId: 2, unsubscriptions: ['a/#'] },
    {
      cmd: 'publish',
      messageId: 3,
      topic: 'a/b',
      payload: 'x',
      qos: 2,
      dup: false,
      retain: true,
      properties: { contentType: 'text', messageExpiryInterval: 9, userProperties: { a: ['1', '2'] } },
    },
    { cmd: 'pubrel', messageId: 3, reasonCode: 0 },
    { cmd: 'pubrec', messageId: 3, reasonCode: 0 },
    { cmd: 'puback', messageId: 1, reasonCode: 0, properties: { reasonString: 'why' } },
    { cmd: 'disconnect', reasonCode: 0, properties: { sessionExpiryInterval: 1 } },
  ] as Packet[]
).map((packet) => generate(packet, five));

test('two thousand connections of damaged packets leave the broker standing and empty', async (t) => {
  const broker = await FaultBroker.open({ port: 0 });
  t.after(() => broker.close());
  const random = randomFrom(20);
  const pick = (below: number) => Math.floor(random() * below);
  for (let group = 0; group < 40; group++) {
    const clients = await Promise.all(Array.from({ length: 50 }, () => RawMqttClient.open(t, broker.port)));
    for (const { socket } of clients) {
      const stream = Buffer.concat([CONNECT, ...Array.from({ length: 4 }, () => PACKETS[pick(PACKETS.length)]!)]);
      const damagedFrom = pick(4) === 0 ? 0 : CONNECT.length;
      for (let n = 0; n < 1 + pick(3); n++) {
        const at = damagedFrom + pick(stream.length - damagedFrom);
        stream[at] = pick(2) === 0 ? pick(256) : stream[at]! ^ (1 << pick(8));
      }
      const cut = pick(stream.length);
      socket.write(stream.subarray(0, cut));
      socket.end(stream.subarray(cut));
    }
    await until('all closed', () => clients.every(({ closed }) => closed));
  }
  const { connections, protocolErrors } = broker.stats();
  assert.equal(connections, 0);
  assert.ok(protocolErrors > 100, `${protocolErrors} protocol errors`);
  const client = await RawMqttClient.established(t, broker.port, { clientId: 'after' });
  await client.subscribe('t', 1);
  client.publish(1);
  await client.next('publish');
});

test('each breach of the protocol ends with its own reason', async (t) => {
  const broker = await FaultBroker.open({ port: 0 });
  t.after(() => broker.close());
  const raw = (...bytes: number[]) => Buffer.from(bytes);
  const publish = { cmd: 'publish', topic: 't', payload: '', qos: 1, dup: false, retain: false, messageId: 1 } as const;
  const cases: [what: string, bytes: Buffer, reason: number][] = [
    ['a second CONNECT', CONNECT, 0x82],
    ['a packet that a server sends', generate({ cmd: 'pingresp' }), 0x82],
    ['QoS 3', raw(0x36, 5, 0, 1, 0x74, 0, 1), 0x81],
    ['an endless length', raw(0x30, 0xff, 0xff, 0xff, 0xff, 1), 0x81],
    ['a wildcard in a topic', generate({ ...publish, topic: 'a/#' }, five), 0x90],
    ['an empty topic', generate({ ...publish, topic: '' }, five), 0x90],
    ['an alias that was not allowed', generate({ ...publish, properties: { topicAlias: 1 } }, five), 0x94],
    ['a packet id of 0', generate({ ...publish, messageId: 0 }, five), 0x82],
    ['a content type twice', raw(0x30, 12, 0, 1, 0x74, 8, 3, 0, 1, 0x61, 3, 0, 1, 0x62), 0x82],
    ['SUBSCRIBE to nothing', raw(0x82, 3, 0, 1, 0), 0x82],
    [
      'a subscription id',
      generate(
        {
          cmd: 'subscribe',
          messageId: 1,
          subscriptions: [{ topic: 't', qos: 0 }],
          properties: { subscriptionIdentifier: 5 },
        },
        five,
      ),
      0xa1,
    ],
    [
      'a session prolonged at its end',
      generate({ cmd: 'disconnect', reasonCode: 0, properties: { sessionExpiryInterval: 1 } }, five),
      0x82,
    ],
  ];
  for (const [what, bytes, reason] of cases) {
    const client = await RawMqttClient.established(t, broker.port);
    client.socket.write(bytes);
    await until(`the end after ${what}`, () => client.closed);
    assert.equal(client.all('disconnect')[0]?.reasonCode, reason, what);
  }
  const subscriber = await RawMqttClient.established(t, broker.port);
  subscriber.send({
    cmd: 'subscribe',
    messageId: 1,
    subscriptions: ['ok', 'a/#/b', '$share/g/t'].map((topic) => ({ topic, qos: 1 })),
  });
  assert.deepEqual((await subscriber.next('suback')).granted, [1, 0x8f, 0x9e]);
});
