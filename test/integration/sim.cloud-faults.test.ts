import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type AcceptedPublish, FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import type { CloudFaults } from '../../src/sim/cloud/faults.js';
import { until } from '../helpers/wait.js';
import { RawMqttClient } from './sim.raw-mqtt-client.js';

async function open(t: TestContext, faults: Partial<CloudFaults> = {}) {
  const taken: AcceptedPublish[] = [];
  const broker = await FaultBroker.open({ port: 0, faults, onPublish: (publish) => taken.push(publish) });
  t.after(() => broker.close());
  return { broker, taken };
}

const codes = (client: RawMqttClient) => client.all('puback').map(({ reasonCode }) => reasonCode);
const ids = (client: RawMqttClient) => client.all('puback').map(({ messageId }) => messageId);

test('a refused CONNECT says so in the words of its version, and the next is welcome', async (t) => {
  const { broker } = await open(t, { refuseConnect: 0x88 });
  const five = await RawMqttClient.established(t, broker.port);
  assert.equal(five.all('connack')[0]!.reasonCode, 0x88);
  const four = await RawMqttClient.established(t, broker.port, { protocolVersion: 4 });
  assert.equal(four.all('connack')[0]!.returnCode, 3);
  await until('both closed', () => five.closed && four.closed);
  await broker.set({ refuseConnect: 5 });
  const denied = await RawMqttClient.established(t, broker.port);
  assert.equal(denied.all('connack')[0]!.reasonCode, 0x87);
  await broker.set({ refuseConnect: null });
  const welcome = await RawMqttClient.established(t, broker.port);
  assert.equal(welcome.all('connack')[0]!.reasonCode, 0);
  assert.equal(broker.stats().connectsRefused, 3);
});

test('without CONNACK the connection stays open and dead', async (t) => {
  const { broker } = await open(t, { noConnack: true });
  const client = await RawMqttClient.open(t, broker.port);
  client.send({ cmd: 'connect', clientId: 'raw', protocolVersion: 5, clean: true });
  await until('CONNECT is read', () => broker.stats().connects === 1);
  await broker.set({ noConnack: false });
  // The other client's round trip is the time in which an answer would have come.
  const other = await RawMqttClient.established(t, broker.port, { clientId: 'other' });
  await other.roundTrip();
  assert.deepEqual([client.received, client.closed, broker.stats().connections], [[], false, 2]);
});

test('swallowed acknowledgements: the message arrives, the publisher does not hear of it', async (t) => {
  const { broker, taken } = await open(t, { swallowAcks: 2 });
  const client = await RawMqttClient.established(t, broker.port);
  for (let n = 1; n <= 4; n++) client.publish(n);
  await client.next('puback', 2);
  assert.deepEqual(ids(client), [3, 4]);
  assert.equal(taken.length, 4);
  await broker.set({ swallowAcks: 'all' });
  client.publish(5);
  await client.roundTrip();
  await broker.set({ swallowAcks: 0 });
  client.publish(6);
  await client.next('puback', 3);
  assert.deepEqual(ids(client), [3, 4, 6]);
  assert.equal(broker.stats().acksSwallowed, 3);
});

test('delayed acknowledgements come later than a ping that was sent after them, in order', async (t) => {
  const { broker, taken } = await open(t, { ackDelayMs: 300 });
  const client = await RawMqttClient.established(t, broker.port);
  for (let n = 1; n <= 5; n++) client.publish(n);
  await client.roundTrip();
  assert.equal(taken.length, 5);
  assert.equal(client.all('puback').length, 0);
  await client.next('puback', 5);
  assert.deepEqual(ids(client), [1, 2, 3, 4, 5]);
});

test('acknowledgements are permuted within a window, each comes once, and a rest is not held for ever', async (t) => {
  const { broker } = await open(t, { ackOrder: 'reverse', ackWindow: 4 });
  const client = await RawMqttClient.established(t, broker.port);
  // In one piece: a publish that comes long before the others is acknowledged without them.
  client.inOnePiece(() => {
    for (let n = 1; n <= 8; n++) client.publish(n);
  });
  await client.next('puback', 8);
  assert.deepEqual(ids(client), [4, 3, 2, 1, 8, 7, 6, 5]);
  client.publish(9);
  await client.next('puback', 9);
  await broker.set({ ackOrder: 'random', ackWindow: 50 });
  client.inOnePiece(() => {
    for (let n = 101; n <= 150; n++) client.publish(n);
  });
  await client.next('puback', 59);
  const random = ids(client).slice(9);
  const sent = Array.from({ length: 50 }, (_, n) => n + 101);
  assert.notDeepEqual(random, sent);
  assert.deepEqual(
    random.sort((a, b) => a! - b!),
    sent,
  );
});

test('a reason code is given so many times; a refused publish is not delivered', async (t) => {
  const { broker, taken } = await open(t, { ackCode: { code: 0x97, count: 2 } });
  const client = await RawMqttClient.established(t, broker.port);
  await client.subscribe('t', 0);
  client.publish(0, 't', 0, 'has no acknowledgement to spoil');
  for (let n = 1; n <= 3; n++) client.publish(n);
  await client.next('puback', 3);
  assert.deepEqual(codes(client), [0x97, 0x97, 0]);
  assert.equal(taken.length, 2);
  await broker.set({ ackCode: { code: 0x10, count: 1 } });
  client.publish(4);
  client.publish(5);
  await client.next('puback', 5);
  assert.deepEqual(codes(client).slice(3), [0x10, 0]);
  assert.equal(taken.length, 4);
  await broker.set({ ackCode: { code: 0x87, count: 'all' } });
  const four = await RawMqttClient.established(t, broker.port, { clientId: 'four', protocolVersion: 4 });
  four.publish(1);
  await until('3.1.1 is closed', () => four.closed);
  client.publish(6, 't', 2);
  assert.equal((await client.next('pubrec')).reasonCode, 0x87);
});

test('nobody subscribed: PUBACK 0x10, in 3.1.1 a plain PUBACK', async (t) => {
  const { broker } = await open(t);
  const client = await RawMqttClient.established(t, broker.port);
  client.publish(1);
  assert.equal((await client.next('puback')).reasonCode, 0x10);
  const four = await RawMqttClient.established(t, broker.port, { clientId: 'four', protocolVersion: 4 });
  four.publish(1);
  await four.next('puback');
});

test('Receive Maximum is said and enforced: one too many ends the connection with 0x93', async (t) => {
  const { broker } = await open(t, { receiveMaximum: 3, swallowAcks: 'all' });
  const client = await RawMqttClient.established(t, broker.port);
  assert.equal(client.all('connack')[0]!.properties?.receiveMaximum, 3);
  for (let n = 1; n <= 3; n++) client.publish(n);
  await client.roundTrip();
  client.publish(4);
  assert.equal((await client.next('disconnect')).reasonCode, 0x93);
  await until('closed', () => client.closed);
  await broker.set({ swallowAcks: 0 });
  const polite = await RawMqttClient.established(t, broker.port);
  for (let n = 1; n <= 20; n++) {
    polite.publish(n, 't', n % 2 ? 1 : 2);
    if (n % 2) await polite.next('puback', Math.ceil(n / 2));
    else {
      await polite.next('pubrec', n / 2);
      polite.send({ cmd: 'pubrel', messageId: n, reasonCode: 0 });
      await polite.next('pubcomp', n / 2);
    }
  }
  await polite.roundTrip();
  assert.equal(polite.closed, false);
});

test('a packet that is too large: 0x95 in MQTT 5, a close in 3.1.1; the limit itself is taken', async (t) => {
  const { broker, taken } = await open(t, { maximumPacketSize: 1000 });
  const five = await RawMqttClient.established(t, broker.port);
  assert.equal(five.all('connack')[0]!.properties?.maximumPacketSize, 1000);
  // Fixed header 3, topic 3, id 2, property length 1.
  five.publish(1, 't', 1, Buffer.alloc(1000 - 9));
  await five.next('puback');
  five.publish(2, 't', 1, Buffer.alloc(1000 - 8));
  assert.equal((await five.next('disconnect')).reasonCode, 0x95);
  await until('closed', () => five.closed);
  const four = await RawMqttClient.established(t, broker.port, { protocolVersion: 4 });
  four.publish(3, 't', 1, Buffer.alloc(1000));
  await until('closed', () => four.closed);
  assert.deepEqual([taken.length, four.all('puback').length], [1, 0]);
});

test('a reset after the nth publish: that one is taken and never acknowledged', async (t) => {
  const { broker, taken } = await open(t, { resetAfterPublishes: 3 });
  const client = await RawMqttClient.established(t, broker.port);
  client.publish(1);
  client.publish(2);
  await client.next('puback', 2);
  client.publish(3);
  await until('closed', () => client.closed);
  assert.equal(client.errorCode, 'ECONNRESET');
  assert.deepEqual([taken.length, client.all('puback').length], [3, 2]);
  const next = await RawMqttClient.established(t, broker.port);
  for (let n = 1; n <= 5; n++) next.publish(n);
  await next.next('puback', 5);
});

test('a black hole swallows; who fell in stays in, who comes after it is served', async (t) => {
  const { broker, taken } = await open(t);
  const client = await RawMqttClient.established(t, broker.port, { keepalive: 1 });
  await broker.set({ blackHole: true });
  client.publish(1);
  const late = await RawMqttClient.open(t, broker.port);
  late.send({ cmd: 'connect', clientId: 'late', protocolVersion: 5, clean: true });
  await until('the bytes are read', () => client.socket.writableLength === 0 && late.socket.writableLength === 0);
  await broker.set({ blackHole: false });
  client.publish(2);
  const other = await RawMqttClient.established(t, broker.port, { clientId: 'other' });
  await other.roundTrip();
  assert.deepEqual([client.received.length, client.closed, late.received.length, late.closed], [1, false, 0, false]);
  assert.equal(taken.length, 0);
});

test('an absent broker refuses and resets; back on its port it still has its sessions', async (t) => {
  const { broker } = await open(t);
  const persistent = { clientId: 'p', clean: false, properties: { sessionExpiryInterval: 100 } };
  const client = await RawMqttClient.established(t, broker.port, persistent);
  await broker.set({ absent: true });
  await until('reset', () => client.closed);
  await assert.rejects(RawMqttClient.open(t, broker.port), { code: 'ECONNREFUSED' });
  await broker.set({ absent: false });
  const back = await RawMqttClient.established(t, broker.port, persistent);
  assert.equal(back.all('connack')[0]!.sessionPresent, true);
});

test('a silent client is sent away after one and a half keepalives, one that pings is not', async (t) => {
  const { broker } = await open(t);
  const silent = await RawMqttClient.established(t, broker.port, { keepalive: 1 });
  const pinging = await RawMqttClient.established(t, broker.port, { clientId: 'pinging', keepalive: 1 });
  const timer = setInterval(() => pinging.send({ cmd: 'pingreq' }), 200);
  t.after(() => clearInterval(timer));
  assert.equal((await silent.next('disconnect')).reasonCode, 0x8d);
  await until('closed', () => silent.closed);
  assert.equal(pinging.closed, false);
});

test('wrong switches are refused with every reason at once', async (t) => {
  const { broker } = await open(t);
  await assert.rejects(broker.set({ ackWindow: 0, ackOrder: 'sideways' } as never), (error: Error) => {
    assert.match(error.message, /ackWindow/);
    assert.match(error.message, /ackOrder/);
    return true;
  });
  await assert.rejects(FaultBroker.open({ port: 0, faults: { nothing: 1 } as never }), { code: 'usage.invalid' });
});
