import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Log, silentLog } from '../../src/lib/log.js';
import { client, openPlant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

/** A log that remembers what was warned of. */
function listening(): { log: Log; warnings: string[] } {
  const warnings: string[] = [];
  const log: Log = { ...silentLog, warn: (_fields, sentence) => void warnings.push(sentence), child: () => log };
  return { log, warnings };
}

test('one address has only so many connections, and a place that is left can be taken again', async (t) => {
  const { log, warnings } = listening();
  const plant = await openPlant(t, { limits: { clientsPerAddressMax: 3 }, log });
  const inside = await Promise.all(['a', 'b', 'c'].map((id) => RawClient.connect(t, plant.port, id)));
  const fourth = await RawClient.open(t, plant.port);
  await fourth.gone();
  assert.deepEqual([plant.broker.status().turnedAway, plant.broker.status().clients], [1, 3]);
  assert.deepEqual(warnings, ['A connection is turned away']);
  inside[0]?.socket.destroy();
  await until('a place is free', () => plant.broker.status().clients === 2);
  await RawClient.connect(t, plant.port, 'd');
});

test('an address that connects without end is turned away until it has calmed down, and the others are served', async (t) => {
  const plant = await openPlant(t, { limits: { connectRateMax: 1 } });
  const patient = await RawClient.connect(t, plant.port, 'patient');
  const turnedAway = () => plant.broker.status().turnedAway;
  await until('a connection is turned away', async () => {
    const raw = await RawClient.open(t, plant.port);
    raw.socket.destroy();
    return turnedAway() > 0;
  });
  assert.ok(plant.broker.status().connections >= 10, 'the burst was served');
  await patient.ping();
  await until('it is let in again', async () => {
    const before = turnedAway();
    const raw = await RawClient.open(t, plant.port);
    raw.send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clientId: 'calm', clean: true, keepalive: 0 });
    await until('an answer', () => raw.closed || raw.packets.length > 0);
    return turnedAway() === before;
  });
});

for (const [what, limits] of [
  ['messages', { clientMessageRateMax: 200 }],
  ['bytes', { clientByteRateMax: 20_000 }],
] as const) {
  test(`a client that publishes more ${what} than it may is slowed, keeps its connection and loses nothing`, async (t) => {
    const plant = await openPlant(t, { limits });
    const raw = await RawClient.connect(t, plant.port, 'greedy', { keepalive: 60 });
    const count = 300;
    for (let n = 1; n <= count; n++) raw.publish('x', 'y'.repeat(80), 1, n);
    await until('it is not read for a while', () => plant.broker.status().pausedClients === 1);
    const modest = await RawClient.connect(t, plant.port, 'modest');
    modest.publish('x', 'y', 1, 1);
    await modest.next('puback');
    const acked: number[] = [];
    while (acked.length < count) acked.push((await raw.next('puback')).messageId);
    assert.deepEqual(
      acked,
      Array.from({ length: count }, (_, n) => n + 1),
    );
    await raw.ping();
    assert.equal((await plant.rows()).length, count + 1);
  });
}

test('two clients with one id are made to wait, and the operator is told which id it is', async (t) => {
  const { log, warnings } = listening();
  const plant = await openPlant(t, { log });
  const storm = 300;
  for (let n = 0; n < storm; n++) {
    const raw = await RawClient.open(t, plant.port);
    raw.send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clientId: 'twin', clean: true, keepalive: 0 });
  }
  await until('the storm is noticed', () => warnings.length > 0);
  assert.deepEqual(warnings, ['Two clients throw each other out: they have the same client id']);
  const bystander = await RawClient.connect(t, plant.port, 'bystander');
  await bystander.ping();
  await until('one is left and the others have gone', () => {
    const { clients, connecting } = plant.broker.status();
    return clients === 2 && connecting === 0;
  });
  assert.ok(plant.broker.status().takeovers < storm - 1, 'most ran into the time limit of CONNECT');
});

test('a client of version 5 is told the longest keepalive and held to it, one of 3.1.1 keeps its own', async (t) => {
  const plant = await openPlant(t, { limits: { keepaliveMaxS: 1 } });
  for (const keepalive of [0, 60]) {
    const raw = await RawClient.open(t, plant.port, 5);
    raw.send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 5, clientId: 'k', clean: true, keepalive });
    assert.equal((await raw.next('connack')).properties.serverKeepAlive, 1);
    assert.equal((await raw.next('disconnect')).reasonCode, 0x8d);
  }
  const talking = await client(t, plant, { protocolVersion: 5, keepalive: 60 });
  const old = await RawClient.connect(t, plant.port, 'old', { keepalive: 60 });
  const silent = await RawClient.connect(t, plant.port, 'silent', { version: 5 });
  await silent.next('disconnect');
  await old.ping();
  assert.equal(talking.connected, true, 'MQTT.js does as it is told');
});

test('more open messages than Receive Maximum are no reason to throw a client out, unless that is configured', async (t) => {
  for (const strictReceiveMaximum of [false, true]) {
    const plant = await openPlant(t, { limits: { receiveMaximum: 5, strictReceiveMaximum } });
    const raw = await RawClient.connect(t, plant.port, 'a', { version: 5 });
    const burst = (first: number): void => {
      for (let id = first; id < first + 5; id++) raw.publish('x', 'y', id % 2 ? 1 : 2, id);
    };
    // What has been answered to its end does not count.
    for (let round = 0; round < 3; round++) {
      burst(1);
      for (const _ of [1, 3, 5]) await raw.next('puback');
      for (const messageId of [2, 4]) {
        await raw.next('pubrec');
        raw.send({ cmd: 'pubrel', messageId, reasonCode: 0 });
        await raw.next('pubcomp');
      }
    }
    plant.hold = () => true;
    burst(1);
    raw.publish('x', 'y', 1, 6);
    if (strictReceiveMaximum) assert.equal((await raw.next('disconnect')).reasonCode, 0x93);
    else await raw.ping();
    plant.release();
  }
});

test('topics and filters have a length and a depth', async (t) => {
  const plant = await openPlant(t, { limits: { topicBytesMax: 10, topicLevelsMax: 3 } });
  const raw = await RawClient.connect(t, plant.port, 'a', { version: 5 });
  const filters = ['a/b/c', 'a/b/c/d', '1234567890', 'äöüäöü', '+/+/#', '+/+/+/#'];
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: filters.map((topic) => ({ topic, qos: 1 })) });
  assert.deepEqual((await raw.next('suback')).granted, [1, 0x8f, 1, 0x8f, 1, 0x8f]);
  for (const topic of ['a/b/c', '1234567890']) {
    raw.publish(topic, 'x', 1, 1);
    await raw.next('puback');
  }
  for (const topic of ['a/b/c/d', 'äöüäöü']) {
    const bad = await RawClient.connect(t, plant.port, 'bad', { version: 5 });
    bad.publish(topic, 'x', 1, 1);
    assert.equal((await bad.next('disconnect')).reasonCode, 0x90);
    const dying = await RawClient.open(t, plant.port, 5);
    const will = { topic, payload: 'x', qos: 0, retain: false };
    const connect = { cmd: 'connect', protocolId: 'MQTT', protocolVersion: 5, clientId: 'w', clean: true };
    dying.send({ ...connect, keepalive: 0, will });
    assert.equal((await dying.next('connack')).reasonCode, 0x90);
  }
});
