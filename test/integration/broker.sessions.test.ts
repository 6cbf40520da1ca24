import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Access, anonymousAccess } from '../../src/broker/access.js';
import { client, openPlant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

const KEPT = { version: 5, clean: false, properties: { sessionExpiryInterval: 600 } };

test('a session with its subscriptions and its queue survives a restart of the broker', async (t) => {
  const plant = await openPlant(t);
  for (const version of [4, 5]) {
    const options = { protocolVersion: version as 5, clientId: `s${version}`, clean: false };
    const kept = { ...options, ...(version === 5 ? { properties: { sessionExpiryInterval: 600 } } : {}) };
    const before = await client(t, plant, kept);
    await before.subscribeAsync(`plant/${version}/#`, { qos: 2 });
    await before.endAsync();
    const publisher = await client(t, plant);
    for (const qos of [0, 1, 2] as const) await publisher.publishAsync(`plant/${version}/x`, `q${qos}`, { qos });
    await plant.restart();
    const raw = await RawClient.open(t, plant.port, version);
    raw.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: version,
      clientId: `s${version}`,
      clean: false,
      keepalive: 0,
    });
    assert.equal((await raw.next('connack')).sessionPresent, true);
    assert.deepEqual(
      [String((await raw.next('publish')).payload), String((await raw.next('publish')).payload)],
      ['q1', 'q2'],
    );
    raw.socket.destroy();
    await until('gone', () => plant.broker.status().clients === 0);
  }
});

test('what was sent and not acknowledged is sent again with the same id and DUP, a released one as PUBREL', async (t) => {
  const plant = await openPlant(t);
  let raw = await RawClient.connect(t, plant.port, 's', KEPT);
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '#', qos: 2 }] });
  await raw.next('suback');
  const publisher = await client(t, plant);
  for (const [text, qos] of [
    ['a', 2],
    ['b', 1],
    ['c', 2],
  ] as const)
    await publisher.publishAsync('x', text, { qos });
  const a = await raw.next('publish');
  const b = await raw.next('publish');
  const c = await raw.next('publish');
  raw.send({ cmd: 'pubrec', messageId: a.messageId });
  await raw.next('pubrel');
  raw.socket.destroy();
  await plant.restart();
  raw = await RawClient.connect(t, plant.port, 's', KEPT);
  assert.equal((await raw.next('pubrel')).messageId, a.messageId);
  for (const sent of [b, c]) {
    const again = await raw.next('publish');
    assert.deepEqual([String(again.payload), again.messageId, again.dup], [String(sent.payload), sent.messageId, true]);
  }
  raw.send({ cmd: 'pubcomp', messageId: a.messageId });
  raw.send({ cmd: 'puback', messageId: b.messageId });
  raw.send({ cmd: 'pubrec', messageId: c.messageId });
  await raw.next('pubrel');
  raw.send({ cmd: 'pubcomp', messageId: c.messageId });
  await until('the queue is empty', () => plant.broker.status().queuedRows === 0);
});

test('a second connection with the same id takes the session over', async (t) => {
  const plant = await openPlant(t);
  const first = await RawClient.connect(t, plant.port, 's', KEPT);
  first.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 1 }] });
  await first.next('suback');
  const second = await RawClient.connect(t, plant.port, 's', KEPT);
  assert.equal((await first.next('disconnect')).reasonCode, 0x8e);
  await first.gone();
  second.publish('x', 'one', 1, 1);
  assert.equal(String((await second.next('publish')).payload), 'one');
  const many = [];
  for (let n = 0; n < 50; n++) many.push(RawClient.open(t, plant.port, 4));
  for (const raw of await Promise.all(many))
    raw.send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clientId: 's', clean: true, keepalive: 0 });
  await until('one is left', () => plant.broker.status().clients === 1 && plant.broker.status().sessions === 1);
});

test('clean start wipes what was kept, and a session ends when its expiry has passed', async (t) => {
  const plant = await openPlant(t);
  const first = await RawClient.connect(t, plant.port, 's', KEPT);
  first.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 1 }] });
  await first.next('suback');
  first.socket.destroy();
  await until('gone', () => plant.broker.status().clients === 0);
  const publisher = await client(t, plant);
  await publisher.publishAsync('x', 'one', { qos: 1 });
  assert.equal(plant.broker.status().queuedRows, 1);
  const raw = await RawClient.open(t, plant.port, 5);
  raw.send({
    cmd: 'connect',
    protocolId: 'MQTT',
    protocolVersion: 5,
    clientId: 's',
    clean: true,
    keepalive: 0,
    properties: { sessionExpiryInterval: 1 },
  });
  assert.equal((await raw.next('connack')).sessionPresent, false);
  assert.equal(plant.broker.status().queuedRows, 0);
  raw.socket.destroy();
  await until('the session has ended', () => plant.broker.status().sessions === 1);
  await plant.restart();
  assert.equal(plant.broker.status().sessions, 0);
});

test('DISCONNECT may shorten a session but not give one to a client that asked for none', async (t) => {
  const plant = await openPlant(t);
  const kept = await RawClient.connect(t, plant.port, 'kept', KEPT);
  kept.send({ cmd: 'disconnect', reasonCode: 0, properties: { sessionExpiryInterval: 0 } });
  await until('it has ended', () => plant.broker.status().sessions === 0);
  const none = await RawClient.connect(t, plant.port, 'none', { version: 5 });
  none.send({ cmd: 'disconnect', reasonCode: 0, properties: { sessionExpiryInterval: 9 } });
  assert.equal((await none.next('disconnect')).reasonCode, 0x82);
});

test('client ids that are names of the language are ids like any other', async (t) => {
  const plant = await openPlant(t);
  for (const clientId of ['__proto__', 'constructor', 'hasOwnProperty', 'toString']) {
    const raw = await RawClient.connect(t, plant.port, clientId, { clean: false });
    raw.send({
      cmd: 'subscribe',
      messageId: 1,
      subscriptions: [
        { topic: clientId, qos: 1 },
        { topic: 'x/__proto__/#', qos: 1 },
      ],
    });
    await raw.next('suback');
    raw.publish(clientId, 'x', 1, 1, { retain: true });
    assert.equal((await raw.next('publish')).topic, clientId);
    raw.socket.destroy();
  }
  await plant.restart();
  assert.equal(plant.broker.status().sessions, 4);
});

test('a queue has an end in bytes, and what leaves it makes room, also after a restart', async (t) => {
  const limits = { sessionQueueBytesMax: 10_000 };
  const plant = await openPlant(t, { limits });
  const absent = await RawClient.connect(t, plant.port, 's', KEPT);
  absent.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 1 }] });
  await absent.next('suback');
  absent.socket.destroy();
  await until('it is away', () => plant.broker.status().clients === 0);
  const fill = async (): Promise<number> => {
    const dropped = plant.broker.status().dropped['session-queue-full'];
    const writer = await RawClient.connect(t, plant.port, 'w');
    for (let id = 1; id <= 5; id++) {
      writer.publish('x', 'y'.repeat(4_000), 1, id);
      await writer.next('puback');
    }
    writer.socket.destroy();
    await until('it has gone', () => plant.broker.status().clients === 0);
    return plant.broker.status().dropped['session-queue-full'] - dropped;
  };
  assert.equal(await fill(), 3);
  assert.equal(plant.broker.status().queuedBytes, 8_000);
  await plant.restart({ limits });
  assert.equal(plant.broker.status().queuedBytes, 8_000);
  assert.equal(await fill(), 5);
  const back = await RawClient.connect(t, plant.port, 's', KEPT);
  for (const _ of [1, 2]) back.send({ cmd: 'puback', messageId: (await back.next('publish')).messageId });
  await until('the queue is empty', () => plant.broker.status().queuedRows === 0);
  assert.equal(plant.broker.status().queuedBytes, 0);
  back.socket.destroy();
  await until('it is away again', () => plant.broker.status().clients === 0);
});

test('the bytes of a QoS 2 message count until PUBREC, over lost connections', async (t) => {
  const plant = await openPlant(t);
  const first = await RawClient.connect(t, plant.port, 's', KEPT);
  first.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 2 }] });
  await first.next('suback');
  const writer = await RawClient.connect(t, plant.port, 'w');
  writer.publish('x', 'y'.repeat(100), 2, 1);
  await writer.next('pubrec');
  const { messageId } = await first.next('publish');
  assert.equal(plant.broker.status().queuedBytes, 100);
  first.send({ cmd: 'pubrec', messageId });
  await first.next('pubrel');
  assert.deepEqual([plant.broker.status().queuedRows, plant.broker.status().queuedBytes], [1, 0]);
  first.socket.destroy();
  await until('it is away', () => plant.broker.status().clients === 1);
  const back = await RawClient.connect(t, plant.port, 's', KEPT);
  await back.next('pubrel');
  back.send({ cmd: 'pubcomp', messageId });
  await until('the queue is empty', () => plant.broker.status().queuedRows === 0);
  assert.equal(plant.broker.status().queuedBytes, 0);
});

test('a queue has an end, and what does not fit is counted', async (t) => {
  const plant = await openPlant(t, { limits: { sessionQueueRowsMax: 3 } });
  const first = await RawClient.connect(t, plant.port, 's', KEPT);
  first.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 1 }] });
  await first.next('suback');
  first.socket.destroy();
  await until('gone', () => plant.broker.status().clients === 0);
  const publisher = await client(t, plant);
  for (let n = 0; n < 5; n++) await publisher.publishAsync('x', String(n), { qos: 1 });
  assert.equal(plant.broker.status().queuedRows, 3);
  assert.equal(plant.broker.status().dropped['session-queue-full'], 2);
  const back = await RawClient.connect(t, plant.port, 's', KEPT);
  for (const text of ['0', '1', '2']) assert.equal(String((await back.next('publish')).payload), text);
  assert.equal((await plant.rows()).length, 5, 'the spool has all of them');
});

test('a session belongs to its user: nobody else takes it over, reads it or wipes it', async (t) => {
  const access: Access = {
    ...anonymousAccess,
    authenticate: async ({ clientId, username }) => (username ? { user: username, clientId } : null),
    mayPublish: () => true,
    maySubscribe: (_, filter) => filter !== 'secret/#',
  };
  const plant = await openPlant(t, { access });
  const mine = await RawClient.connect(t, plant.port, 's', { ...KEPT, username: 'ann', password: 'x' });
  for (const version of [4, 5]) {
    const other = await RawClient.open(t, plant.port, version);
    other.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: version,
      clientId: 's',
      clean: true,
      keepalive: 0,
      username: 'bob',
      password: 'x',
    });
    const refused = await other.next('connack');
    assert.equal(version === 5 ? refused.reasonCode : refused.returnCode, version === 5 ? 0x85 : 2);
  }
  await mine.ping();
  mine.send({
    cmd: 'subscribe',
    messageId: 1,
    subscriptions: [
      { topic: 'ok', qos: 1 },
      { topic: 'secret/#', qos: 1 },
      { topic: '$share/g/secret/#', qos: 1 },
      { topic: 'a#', qos: 1 },
    ],
  });
  assert.deepEqual((await mine.next('suback')).granted, [1, 0x87, 0x87, 0x8f]);
  mine.socket.destroy();
  await plant.restart();
  assert.equal(plant.broker.status().subscriptions, 1, 'a denied filter is not kept');
});

test('a connection that died while it was authenticated does not throw out the living one', async (t) => {
  const waiting: (() => void)[] = [];
  let wait = false;
  const access: Access = {
    ...anonymousAccess,
    authenticate: async ({ clientId }) => {
      if (wait) await new Promise<void>((resolve) => waiting.push(resolve));
      return { user: null, clientId };
    },
    mayPublish: () => true,
    maySubscribe: () => true,
  };
  const plant = await openPlant(t, { access });
  const living = await RawClient.connect(t, plant.port, 's', KEPT);
  wait = true;
  const dying = await RawClient.open(t, plant.port, 4);
  const connect = { cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clientId: 's', clean: true, keepalive: 0 };
  dying.send(connect);
  await until('it is asked about', () => waiting.length === 1);
  dying.socket.destroy();
  await until('the broker knows', () => plant.broker.status().connecting === 0);
  for (const go of waiting) go();
  await living.ping();
  wait = false;
  const other = await RawClient.connect(t, plant.port, 'other');
  await other.ping();
  await living.ping();
  assert.equal(plant.broker.status().clients, 2);
});

test('without credentials only an anonymous listener lets a client in', async (t) => {
  const plant = await openPlant(t, { listeners: [{ url: 'mqtt://127.0.0.1:0' }] });
  for (const version of [4, 5]) {
    const raw = await RawClient.open(t, plant.port, version);
    raw.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: version,
      clientId: 's',
      clean: true,
      keepalive: 0,
    });
    const refused = await raw.next('connack');
    assert.equal(version === 5 ? refused.reasonCode : refused.returnCode, version === 5 ? 0x87 : 5);
    await raw.gone();
  }
});

test('a SUBSCRIBE with many filters is stored once, in one unit, and is there after a restart', async (t) => {
  const plant = await openPlant(t);
  const kept = { version: 5, clean: false, properties: { sessionExpiryInterval: 60 } };
  const raw = await RawClient.connect(t, plant.port, 'many', kept);
  const units: number[] = [];
  const { store } = plant;
  const submit = store.submit.bind(store);
  store.submit = (ops, done) => {
    units.push(ops.length);
    submit(ops, done);
  };
  const subscriptions = Array.from({ length: 100 }, (_, n) => ({ topic: `x/${n}`, qos: 1 }));
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions });
  assert.equal((await raw.next('suback')).granted.length, 100);
  assert.deepEqual(units, [100]);
  await plant.restart();
  assert.equal(plant.broker.status().subscriptions, 100);
});
