import assert from 'node:assert/strict';
import { test } from 'node:test';
import mqtt, { type Packet } from 'mqtt-packet';
import { client, openPlant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex');
const publishOf = (topic: Buffer, first = 0x32, rest = '0001') => {
  const length = Buffer.from([topic.length >> 8, topic.length & 255]);
  const body = Buffer.concat([length, topic, hex(rest)]);
  return Buffer.concat([Buffer.from([first, body.length]), body]);
};

/** Bytes after an accepted CONNECT, and the reason a client of version 5 is told. */
const AFTER_CONNECT: readonly [what: string, bytes: Buffer, reason: number][] = [
  ['a length of five bytes', hex('30 ff ff ff ff ff'), 0x81],
  ['a packet of 256 MB', hex('30 ff ff ff 7f'), 0x95],
  ['packet id 0', publishOf(Buffer.from('a'), 0x32, '0000 00'), 0x82],
  ['QoS 3', publishOf(Buffer.from('a'), 0x36, '0001 00'), 0x81],
  ['an empty topic', publishOf(Buffer.from(''), 0x32, '0001 00'), 0x90],
  ['a wildcard in a topic', publishOf(Buffer.from('a/#'), 0x32, '0001 00'), 0x90],
  ['NUL in a topic', publishOf(Buffer.from('a\0b'), 0x32, '0001 00'), 0x81],
  ['a topic that is not UTF-8', publishOf(Buffer.from([0x61, 0xff, 0xfe]), 0x32, '0001 00'), 0x81],
  ['a surrogate in a topic', publishOf(Buffer.from([0xed, 0xa0, 0x80]), 0x32, '0001 00'), 0x81],
  ['21 topic levels', publishOf(Buffer.from('/'.repeat(20)), 0x32, '0001 00'), 0x90],
  ['a shared filter as a topic', publishOf(Buffer.from('$share/g/#'), 0x32, '0001 00'), 0x90],
  ['a SUBSCRIBE with packet id 0', hex('82 07 00 00 00 00 01 61 00'), 0x82],
  ['a PUBLISH without a topic', hex('30 00'), 0x81],
  ['a PUBACK with flags', hex('42 02 00 01'), 0x81],
  ['a truncated PUBLISH', hex('32 05 00 09 61 62 63'), 0x81],
  ['a truncated SUBSCRIBE', hex('82 06 00 01 00 00 09 61'), 0x81],
  ['a SUBSCRIBE without filters', hex('82 03 00 01 00'), 0x82],
  ['reserved flags', hex('80 02 00 01'), 0x81],
  ['a PUBACK of one byte', hex('40 01 00'), 0x81],
  [
    'a second CONNECT',
    mqtt.generate({ cmd: 'connect', clientId: 'x', protocolVersion: 5 } as Packet, { protocolVersion: 5 }),
    0x82,
  ],
  ['CONNACK from a client', hex('20 03 00 00 00'), 0x82],
  ['SUBACK from a client', hex('90 04 00 01 00 00'), 0x82],
  ['AUTH', hex('f0 00'), 0x82],
];

for (const version of [4, 5]) {
  test(`whoever breaks the protocol is told why and closed, and nobody else notices (version ${version})`, async (t) => {
    const plant = await openPlant(t);
    const bystander = await RawClient.connect(t, plant.port, 'bystander');
    for (const [what, bytes, reason] of AFTER_CONNECT) {
      const raw = await RawClient.connect(t, plant.port, 'bad', { version });
      raw.socket.write(bytes);
      if (version === 5) assert.equal((await raw.next('disconnect')).reasonCode, reason, what);
      await raw.gone();
    }
    await bystander.ping();
    assert.equal((await plant.rows()).length, 0);
  });
}

test('before CONNECT nothing is taken but a CONNECT of sensible size, in good time', async (t) => {
  const plant = await openPlant(t, { limits: { connectTimeoutMs: 300 } });
  const firsts: readonly [string, Buffer][] = [
    ['PUBLISH', publishOf(Buffer.from('a'))],
    ['256 MB', hex('30 ff ff ff 7f')],
    ['a CONNECT of 20 KB', hex('10 80 a0 01')],
    ['TLS', hex('16 03 01 02 00 01 00 01 fc 03 03')],
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['silence', Buffer.alloc(0)],
    ['half a CONNECT', hex('10 20 00 04 4d')],
  ];
  for (const [, bytes] of firsts) {
    const raw = await RawClient.open(t, plant.port);
    raw.socket.write(bytes);
    await raw.gone();
  }
  const old = await RawClient.open(t, plant.port);
  old.socket.write(hex('10 0d 00 04 4d 51 54 54 07 02 00 00 00 01 61'));
  assert.equal((await old.next('connack')).returnCode, 1, 'a version that is not known');
  const nameless = await RawClient.open(t, plant.port);
  nameless.send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clientId: '', clean: true, keepalive: 0 });
  assert.equal((await nameless.next('connack')).returnCode, 0);
  const kept = await RawClient.open(t, plant.port);
  kept.socket.write(hex('10 0c 00 04 4d 51 54 54 04 00 00 00 00 00'));
  assert.equal((await kept.next('connack')).returnCode, 2);
  const assigned = await RawClient.open(t, plant.port, 5);
  assigned.send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 5, clientId: '', clean: true, keepalive: 0 });
  assert.match((await assigned.next('connack')).properties.assignedClientIdentifier, /^holdfast-/);
  const auth = await RawClient.open(t, plant.port, 5);
  const properties = { authenticationMethod: 'x' };
  auth.send({
    cmd: 'connect',
    protocolId: 'MQTT',
    protocolVersion: 5,
    clientId: 'x',
    clean: true,
    keepalive: 0,
    properties,
  });
  assert.equal((await auth.next('connack')).reasonCode, 0x8c);
});

test('MQTT 3.1, a packet byte by byte, and several packets in one segment', async (t) => {
  const plant = await openPlant(t);
  const three = await RawClient.open(t, plant.port, 3);
  const clientId = 'a-client-id-of-more-than-23-characters';
  three.send({ cmd: 'connect', protocolId: 'MQIsdp', protocolVersion: 3, clientId, clean: true, keepalive: 0 });
  assert.equal((await three.next('connack')).returnCode, 0);
  const parts = [
    { cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clientId: 'x', clean: true, keepalive: 0 },
    { cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 1 }] },
    { cmd: 'publish', topic: 'x', payload: 'y'.repeat(200), qos: 1, dup: false, retain: false, messageId: 2 },
  ];
  const bytes = Buffer.concat(parts.map((packet) => mqtt.generate(packet as Packet)));
  const whole = await RawClient.open(t, plant.port);
  whole.socket.write(bytes);
  assert.equal(String((await whole.next('publish')).payload).length, 200);
  const slow = await RawClient.open(t, plant.port);
  for (const byte of bytes) {
    slow.socket.write(Buffer.from([byte]));
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(String((await slow.next('publish')).payload).length, 200);
});

test('a silent client is closed after one and a half keepalives, a talking one is not', async (t) => {
  const plant = await openPlant(t);
  const silent = await RawClient.connect(t, plant.port, 'silent', { version: 5, keepalive: 1 });
  const talking = await client(t, plant, { keepalive: 1 });
  assert.equal((await silent.next('disconnect')).reasonCode, 0x8d);
  assert.equal(talking.connected, true);
});

test('topics of the server are not written by clients, but the notice of a bridge is', async (t) => {
  const plant = await openPlant(t);
  const watcher = await RawClient.connect(t, plant.port, 'w');
  watcher.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '$SYS/broker/#', qos: 0 }] });
  await watcher.next('suback');
  await until('the version', () =>
    watcher.packets.some((packet) => packet.cmd === 'publish' && packet.topic === '$SYS/broker/version'),
  );
  watcher.packets.length = 0;
  const raw = await RawClient.connect(t, plant.port, 'p', { version: 5 });
  raw.publish('$SYS/broker/version', 'mine', 1, 1, { retain: true });
  assert.equal((await raw.next('puback')).reasonCode, 0x87);
  raw.publish('$SYS/broker/connection/bridge/state', '1', 1, 2, { retain: true });
  assert.equal((await raw.next('puback')).reasonCode ?? 0, 0);
  assert.equal((await watcher.next('publish')).topic, '$SYS/broker/connection/bridge/state');
  assert.equal(plant.broker.status().dropped.denied, 1);
  assert.equal((await plant.rows()).length, 0);
});

test('subscriptions, sessions and clients have limits', async (t) => {
  const plant = await openPlant(t, {
    limits: { subscriptionsPerSessionMax: 2, sessionsMax: 2, clientsMax: 3, halfOpenMax: 5 },
  });
  const raw = await RawClient.connect(t, plant.port, 'a', { version: 5 });
  const subscriptions = ['a', 'b', 'b', 'c', 'a#', '+a'].map((topic) => ({ topic, qos: 1 }));
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions });
  assert.deepEqual((await raw.next('suback')).granted, [1, 1, 1, 0x97, 0x8f, 0x8f]);
  await RawClient.connect(t, plant.port, 'b');
  const third = await RawClient.open(t, plant.port, 5);
  third.send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 5, clientId: 'c', clean: true, keepalive: 0 });
  assert.equal((await third.next('connack')).reasonCode, 0x97);
  await third.gone();
  const open = await RawClient.open(t, plant.port);
  const fourth = await RawClient.open(t, plant.port);
  await fourth.gone();
  assert.ok(plant.broker.status().turnedAway > 0);
  open.socket.destroy();
  for (let id = 1; id <= 8; id++) raw.publish('x', 'y', 2, id);
  assert.equal((await raw.next('disconnect')).reasonCode, 0x93);
});

test('a will that could not be published is refused with its CONNECT', async (t) => {
  const plant = await openPlant(t);
  const deep = '/'.repeat(1000);
  for (const version of [4, 5]) {
    for (const topic of ['#', 'a/+/b', '$share/g/x', '$SYS/broker/version', '', 'a\0b', deep]) {
      const raw = await RawClient.open(t, plant.port, version);
      // By hand: the library would not write such a will.
      const str = (text: string) =>
        Buffer.concat([Buffer.from([text.length >> 8, text.length & 255]), Buffer.from(text)]);
      const none = version === 5 ? Buffer.from([0]) : Buffer.alloc(0);
      const head = [str('MQTT'), Buffer.from([version, 0x26, 0, 0]), none, str('dying'), none];
      const body = Buffer.concat([...head, str(topic), str('x')]);
      const length = body.length < 128 ? [body.length] : [(body.length & 127) | 128, body.length >> 7];
      raw.socket.write(Buffer.concat([Buffer.from([0x10, ...length]), body]));
      await raw.gone();
      const answers = raw.packets.map((packet) => (packet as { reasonCode?: number }).reasonCode);
      if (version === 5) assert.ok((answers[0] ?? 0) >= 0x80, JSON.stringify(topic));
      else assert.deepEqual(answers, [], 'there is no code for it, so it is only closed');
    }
  }
  assert.equal(plant.broker.status().sessions, 0);
  assert.equal(plant.broker.status().retained, 0);
});

test('a will with bad properties is refused with its CONNECT', async (t) => {
  const plant = await openPlant(t);
  const cases: readonly [what: string, properties: string][] = [
    ['that run past the packet', '7f 01'],
    ['a topic alias, which a will has not', '03 23 00 01'],
    ['a content type twice', '08 03 00 01 61 03 00 01 61'],
    ['a payload format that is none', '02 01 02'],
    ['a response topic that is a filter', '04 08 00 01 23'],
  ];
  for (const [what, properties] of cases) {
    const raw = await RawClient.open(t, plant.port, 5);
    const head = hex('00 04 4d 51 54 54 05 06 00 00 00 00 01 77');
    const body = Buffer.concat([head, hex(properties), hex('00 01 61 00 01 78')]);
    raw.socket.write(Buffer.concat([Buffer.from([0x10, body.length]), body]));
    await raw.gone();
    const [answer] = raw.packets as { cmd: string; reasonCode?: number }[];
    assert.deepEqual([answer?.cmd, (answer?.reasonCode ?? 0) >= 0x80], ['connack', true], what);
  }
  assert.equal(plant.broker.status().sessions, 0);
});

test('a property that is given twice is refused, in CONNECT and in DISCONNECT', async (t) => {
  const plant = await openPlant(t);
  const raw = await RawClient.open(t, plant.port, 5);
  raw.socket.write(hex('10 16 00 04 4d 51 54 54 05 02 00 00 06 21 00 01 21 00 02 00 03 74 77 6f'));
  assert.equal((await raw.next('connack')).reasonCode, 0x82);
  await raw.gone();
  const kept = await RawClient.connect(t, plant.port, 'kept', {
    version: 5,
    properties: { sessionExpiryInterval: 9 },
  });
  kept.socket.write(hex('e0 0c 00 0a 11 00 00 00 05 11 00 00 00 06'));
  assert.equal((await kept.next('disconnect')).reasonCode, 0x82);
});

test('a large packet that is announced and does not come costs nothing but its header', async (t) => {
  const plant = await openPlant(t);
  const raws = await Promise.all(Array.from({ length: 20 }, (_, n) => RawClient.connect(t, plant.port, `big${n}`)));
  const before = process.memoryUsage().arrayBuffers;
  const received = plant.broker.status().receivedBytes;
  for (const raw of raws) raw.socket.write(hex('30 ff ff 3e'));
  await until('they have been read', () => plant.broker.status().receivedBytes === received + 20 * 4);
  assert.equal(plant.broker.status().clients, 20, 'it is below the limit');
  assert.ok(process.memoryUsage().arrayBuffers - before < 1024 * 1024);
});

/** What fits in one packet of 1 MiB. */
const FILTERS = 40_000;

test('a client that fills its filters and the retained messages fills only its own share', async (t) => {
  const plant = await openPlant(t, { limits: { subscriptionsPerSessionMax: 100, retainedMax: 100 } });
  const greedy = await RawClient.connect(t, plant.port, 'greedy', { version: 5 });
  const subscriptions = Array.from({ length: FILTERS }, (_, n) => ({ topic: `+/k/${n}/#`, qos: 1 }));
  greedy.send({ cmd: 'subscribe', messageId: 1, subscriptions });
  const granted: number[] = (await greedy.next('suback')).granted;
  assert.deepEqual(
    [granted.filter((code) => code === 1).length, granted.filter((code) => code === 0x97).length],
    [100, FILTERS - 100],
  );
  for (let n = 1; n <= 200; n++) greedy.publish(`r/${n}`, 'x', 1, n, { retain: true });
  for (let n = 1; n <= 200; n++) await greedy.next('puback');
  const { retained, subscriptions: count, dropped } = plant.broker.status();
  assert.deepEqual([retained, count, dropped['retained-full']], [100, 100, 100]);
  // Notices of bridges are topics under $SYS that clients write: they count like any other.
  greedy.publish('$SYS/broker/connection/x/state', '1', 1, 1, { retain: true });
  await greedy.next('puback');
  assert.equal(plant.broker.status().dropped['retained-full'], 101);
  const modest = await RawClient.connect(t, plant.port, 'modest', { version: 5 });
  modest.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'mine', qos: 1 }] });
  assert.deepEqual((await modest.next('suback')).granted, [1]);
});
