import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { FaultBroker, type FaultBrokerOptions } from '../../src/sim/cloud/fault-broker.js';
import { CloudState } from '../../src/sim/cloud/state.js';
import { until } from '../helpers/wait.js';
import { RawMqttClient } from './sim.raw-mqtt-client.js';

const PERSISTENT = { clientId: 'reader', clean: false, properties: { sessionExpiryInterval: 3600 } } as const;

async function open(t: TestContext, options: FaultBrokerOptions = {}): Promise<FaultBroker> {
  const broker = await FaultBroker.open({ port: 0, ...options });
  t.after(() => broker.close());
  return broker;
}

const texts = (client: RawMqttClient) => client.all('publish').map(({ payload }) => payload.toString());

test('a session that is away is sent, in order, what came meanwhile', async (t) => {
  const broker = await open(t);
  const away = await RawMqttClient.established(t, broker.port, PERSISTENT);
  assert.equal(away.all('connack')[0]!.sessionPresent, false);
  await away.subscribe('t/#', 1);
  away.socket.destroy();
  await until('the broker saw it go', () => broker.stats().connections === 0);
  const publisher = await RawMqttClient.established(t, broker.port, { clientId: 'publisher' });
  for (let n = 1; n <= 100; n++) publisher.publish(n, 't/x');
  publisher.publish(0, 't/x', 0, 'not kept: QoS 0');
  await publisher.next('puback', 100);
  assert.equal(broker.stats().queued, 100);
  const back = await RawMqttClient.established(t, broker.port, PERSISTENT);
  assert.equal(back.all('connack')[0]!.sessionPresent, true);
  await back.next('publish', 100);
  assert.deepEqual(
    texts(back),
    Array.from({ length: 100 }, (_, n) => `m${n + 1}`),
  );
  for (const { messageId } of back.all('publish')) back.send({ cmd: 'puback', messageId: messageId!, reasonCode: 0 });
  await until('nothing left', () => broker.stats().queued === 0);
});

test('what was not acknowledged comes again with DUP and its old id, before what is new', async (t) => {
  const broker = await open(t);
  const first = await RawMqttClient.established(t, broker.port, PERSISTENT);
  await first.subscribe('t', 2);
  const publisher = await RawMqttClient.established(t, broker.port, { clientId: 'publisher' });
  publisher.publish(1, 't', 1);
  publisher.publish(2, 't', 2);
  publisher.publish(3, 't', 2);
  await first.next('publish', 3);
  const ids = first.all('publish').map(({ messageId }) => messageId!);
  first.send({ cmd: 'pubrec', messageId: ids[2]!, reasonCode: 0 });
  await first.next('pubrel');
  first.socket.destroy();
  await until('the broker saw it go', () => broker.stats().connections === 1);
  publisher.publish(4, 't', 1);
  await publisher.next('puback', 2);
  const again = await RawMqttClient.established(t, broker.port, PERSISTENT);
  await again.next('publish', 3);
  assert.deepEqual(
    again.received.slice(1).map((packet) => [packet.cmd, packet.messageId, packet.cmd === 'publish' && packet.dup]),
    [
      ['publish', ids[0], true],
      ['publish', ids[1], true],
      ['pubrel', ids[2], false],
      ['publish', again.all('publish')[2]!.messageId, false],
    ],
  );
  again.send({ cmd: 'puback', messageId: ids[0]!, reasonCode: 0 });
  again.send({ cmd: 'pubrec', messageId: ids[1]!, reasonCode: 0 });
  again.send({ cmd: 'pubcomp', messageId: ids[2]!, reasonCode: 0 });
  again.send({ cmd: 'puback', messageId: again.all('publish')[2]!.messageId!, reasonCode: 0 });
  await again.next('pubrel', 2);
  again.send({ cmd: 'pubcomp', messageId: ids[1]!, reasonCode: 0 });
  await until('nothing left', () => broker.stats().queued === 0);
  assert.equal(broker.stats().redelivered, 3);
});

test('a client never has more in flight than its Receive Maximum, also when it comes back with a smaller one', async (t) => {
  const broker = await open(t);
  const wide = { ...PERSISTENT, properties: { ...PERSISTENT.properties, receiveMaximum: 20 } };
  const first = await RawMqttClient.established(t, broker.port, wide);
  await first.subscribe('t', 1);
  const publisher = await RawMqttClient.established(t, broker.port, { clientId: 'publisher' });
  for (let n = 1; n <= 50; n++) publisher.publish(n);
  await publisher.next('puback', 50);
  await first.roundTrip();
  assert.equal(first.all('publish').length, 20);
  first.socket.destroy();
  const narrow = { ...PERSISTENT, properties: { ...PERSISTENT.properties, receiveMaximum: 3 } };
  const second = await RawMqttClient.established(t, broker.port, narrow);
  for (let acked = 0; acked < 50; acked++) {
    await second.next('publish', acked + 1);
    if (acked % 10 === 0) await second.roundTrip();
    const inFlight = second.all('publish').length - acked;
    assert.ok(inFlight <= 3, `${inFlight} in flight`);
    second.send({ cmd: 'puback', messageId: second.all('publish')[acked]!.messageId!, reasonCode: 0 });
  }
  assert.deepEqual(
    texts(second),
    Array.from({ length: 50 }, (_, n) => `m${n + 1}`),
  );
  assert.equal(second.all('publish').filter(({ dup }) => dup).length, 20);
});

test('a second connection with the same id takes the first one over, and its session', async (t) => {
  const broker = await open(t);
  const first = await RawMqttClient.established(t, broker.port, PERSISTENT);
  await first.subscribe('t', 1);
  const second = await RawMqttClient.established(t, broker.port, PERSISTENT);
  assert.equal((await first.next('disconnect')).reasonCode, 0x8e);
  await until('closed', () => first.closed);
  assert.equal(second.all('connack')[0]!.sessionPresent, true);
  second.publish(7);
  await second.next('publish');
});

test('sessions end as they were told to: at once, later, at a clean start, or never', async (t) => {
  const broker = await open(t);
  const present = async (connectPacket: object) => {
    const client = await RawMqttClient.established(t, broker.port, connectPacket);
    const { sessionPresent } = client.all('connack')[0]!;
    client.socket.destroy();
    await until('gone', () => broker.stats().connections === 0);
    return sessionPresent;
  };
  await present({ ...PERSISTENT, properties: { sessionExpiryInterval: 0 } });
  assert.equal(broker.stats().sessions, 0);
  await present({ ...PERSISTENT, properties: { sessionExpiryInterval: 1 } });
  assert.equal(await present({ ...PERSISTENT, properties: { sessionExpiryInterval: 1 } }), true);
  await until('expired', () => broker.stats().sessions === 0);
  await present({ ...PERSISTENT, properties: { sessionExpiryInterval: 0xffff_ffff } });
  assert.equal(await present(PERSISTENT), true);
  assert.equal(await present({ ...PERSISTENT, clean: true }), false);
  await present({ clientId: 'old', clean: false, protocolVersion: 4 });
  assert.equal(await present({ clientId: 'old', clean: false, protocolVersion: 4 }), true);
});

test('a broker that is stopped and started with its state on its port has lost nothing', async (t) => {
  const state = new CloudState();
  const broker = await open(t, { state });
  const { port } = broker;
  const reader = await RawMqttClient.established(t, port, PERSISTENT);
  await reader.subscribe('t', 1);
  reader.socket.destroy();
  const publisher = await RawMqttClient.established(t, port, { clientId: 'publisher' });
  publisher.publish(1);
  await publisher.next('puback');
  await broker.close();
  assert.equal(publisher.all('disconnect')[0]?.reasonCode, 0x8b);
  await open(t, { state, port });
  const back = await RawMqttClient.established(t, port, PERSISTENT);
  assert.equal((await back.next('publish')).payload.toString(), 'm1');
});

test('a publish that a queue has no room for is refused, not acknowledged and dropped', async (t) => {
  const broker = await open(t, { state: new CloudState({ queueMax: 2 }) });
  const reader = await RawMqttClient.established(t, broker.port, PERSISTENT);
  await reader.subscribe('t', 1);
  reader.socket.destroy();
  await until('gone', () => broker.stats().connections === 0);
  const five = await RawMqttClient.established(t, broker.port, { clientId: 'five' });
  for (let n = 1; n <= 3; n++) five.publish(n);
  await five.next('puback', 3);
  assert.deepEqual(
    five.all('puback').map(({ reasonCode }) => reasonCode),
    [0, 0, 0x97],
  );
  const four = await RawMqttClient.established(t, broker.port, { clientId: 'four', protocolVersion: 4 });
  four.publish(1);
  await until('closed', () => four.closed);
  assert.equal(four.all('puback').length, 0);
  assert.equal(broker.stats().publishesRefused, 2);
});

test('QoS 2 is delivered once, however often the publish is repeated', async (t) => {
  const taken: string[] = [];
  const broker = await open(t, { onPublish: ({ payload }) => taken.push(payload.toString()) });
  const client = await RawMqttClient.established(t, broker.port, PERSISTENT);
  client.publish(5, 't', 2);
  client.publish(5, 't', 2);
  assert.equal((await client.next('pubrec', 2)).reasonCode, 0);
  client.socket.destroy();
  const again = await RawMqttClient.established(t, broker.port, PERSISTENT);
  again.publish(5, 't', 2);
  await again.next('pubrec');
  again.send({ cmd: 'pubrel', messageId: 5, reasonCode: 0 });
  again.send({ cmd: 'pubrel', messageId: 5, reasonCode: 0 });
  await again.next('pubcomp', 2);
  assert.deepEqual(
    again.all('pubcomp').map(({ reasonCode }) => reasonCode),
    [0, 0x92],
  );
  again.publish(5, 't', 2);
  await again.next('pubrec', 2);
  assert.deepEqual(taken, ['m5', 'm5']);
});

test('a client without an id is given one that is its own', async (t) => {
  const broker = await open(t);
  const assigned = await Promise.all(
    [1, 2].map(async () => {
      const client = await RawMqttClient.established(t, broker.port, { clientId: '' });
      return client.all('connack')[0]!.properties?.assignedClientIdentifier;
    }),
  );
  assert.match(assigned[0]!, /^assigned-/);
  assert.notEqual(assigned[0], assigned[1]);
  const four = await RawMqttClient.open(t, broker.port, 4);
  four.socket.write(Buffer.from([0x10, 12, 0, 4, ...Buffer.from('MQTT'), 4, 0, 0, 60, 0, 0]));
  assert.equal((await four.next('connack')).returnCode, 2);
});

test('retained messages are bounded: one too many is refused, a smaller one in place of another is not', async (t) => {
  const broker = await open(t, { state: new CloudState({ retainedMax: 2, retainedBytesMax: 10 }) });
  const client = await RawMqttClient.established(t, broker.port);
  const retain = async (topic: string, payload: string) => {
    const n = client.all('puback').length;
    client.send({ cmd: 'publish', topic, payload, qos: 1, dup: false, retain: true, messageId: n + 1 });
    return (await client.next('puback', n + 1)).reasonCode;
  };
  const [taken, refused] = [0x10, 0x97];
  assert.equal(await retain('a', '12345678'), taken);
  assert.equal(await retain('b', '123'), refused);
  assert.equal(await retain('a', '1'), taken);
  assert.equal(await retain('b', '123'), taken);
  assert.equal(await retain('c', '1'), refused);
  assert.equal(await retain('a', ''), taken);
  assert.equal(await retain('c', '1'), taken);
  await client.subscribe('#', 0);
  await client.next('publish', 2);
  assert.deepEqual(
    client.all('publish').map(({ topic, payload, retain }) => `${topic} ${payload} ${retain}`),
    ['b 123 true', 'c 1 true'],
  );
});

test('a packet larger than a client takes is not sent to it, and its next message is', async (t) => {
  const broker = await open(t);
  const small = await RawMqttClient.established(t, broker.port, {
    ...PERSISTENT,
    properties: { ...PERSISTENT.properties, maximumPacketSize: 100, receiveMaximum: 1 },
  });
  await small.subscribe('t', 1);
  const publisher = await RawMqttClient.established(t, broker.port, { clientId: 'publisher' });
  publisher.publish(1, 't', 1, 'x'.repeat(200));
  publisher.publish(2);
  assert.equal((await small.next('publish')).payload.toString(), 'm2');
  assert.equal(broker.stats().dropped, 1);
});

test('a message that expires while its subscriber is away is not delivered', async (t) => {
  const broker = await open(t);
  const away = await RawMqttClient.established(t, broker.port, PERSISTENT);
  await away.subscribe('t', 1);
  away.socket.destroy();
  await until('gone', () => broker.stats().connections === 0);
  const publisher = await RawMqttClient.established(t, broker.port, { clientId: 'publisher' });
  for (const [messageId, messageExpiryInterval] of [
    [1, 1],
    [2, 1000],
  ] as const)
    publisher.send({
      cmd: 'publish',
      topic: 't',
      payload: `m${messageId}`,
      qos: 1,
      dup: false,
      retain: false,
      messageId,
      properties: { messageExpiryInterval },
    });
  const publishedMono = performance.now();
  await publisher.next('puback', 2);
  await until('a second later', () => performance.now() > publishedMono + 1100);
  const back = await RawMqttClient.established(t, broker.port, PERSISTENT);
  const received = await back.next('publish');
  assert.equal(received.payload.toString(), 'm2');
  assert.ok(received.properties!.messageExpiryInterval! <= 999, 'what is left is said');
});
