import assert from 'node:assert/strict';
import { test } from 'node:test';
import { client, collect, openPlant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

for (const kept of [false, true]) {
  test(`with Receive Maximum 3 never more than three messages are open, and all arrive in order (kept: ${kept})`, async (t) => {
    const plant = await openPlant(t);
    const properties = { receiveMaximum: 3, ...(kept ? { sessionExpiryInterval: 60 } : {}) };
    const raw = await RawClient.connect(t, plant.port, 's', { version: 5, properties });
    raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 2 }] });
    await raw.next('suback');
    const publisher = await client(t, plant);
    const sent = [];
    for (let n = 0; n < 200; n++) sent.push(publisher.publishAsync('x', String(n), { qos: n % 2 ? 1 : 2 }));
    await Promise.all(sent);
    const got: number[] = [];
    let open = 0;
    let most = 0;
    await until('all have come', async () => {
      for (const packet of raw.packets.splice(0)) {
        if (packet.cmd === 'publish') {
          got.push(Number(packet.payload));
          most = Math.max(most, ++open);
          raw.send({ cmd: packet.qos === 2 ? 'pubrec' : 'puback', messageId: packet.messageId });
          if (packet.qos === 1) open--;
        } else if (packet.cmd === 'pubrel') {
          open--;
          raw.send({ cmd: 'pubcomp', messageId: packet.messageId });
        }
      }
      return got.length === 200 && open === 0;
    });
    assert.ok(most <= 3, `${most} were open`);
    assert.deepEqual(
      got.filter((n) => n % 2),
      Array.from({ length: 100 }, (_, i) => 2 * i + 1),
    );
    assert.deepEqual(
      got.filter((n) => n % 2 === 0),
      Array.from({ length: 100 }, (_, i) => 2 * i),
    );
    await until('all are finished', () => plant.broker.status().queuedRows === 0);
  });
}

test('topic aliases work both ways', async (t) => {
  const plant = await openPlant(t);
  const raw = await RawClient.connect(t, plant.port, 's', { version: 5, properties: { topicAliasMaximum: 1 } });
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'a/#', qos: 0 }] });
  await raw.next('suback');
  raw.publish('a/1', 'x', 0, undefined, { properties: { topicAlias: 5 } });
  raw.publish('', 'y', 0, undefined, { properties: { topicAlias: 5 } });
  raw.publish('a/2', 'z', 0);
  const got = [await raw.next('publish'), await raw.next('publish'), await raw.next('publish')];
  assert.deepEqual(
    got.map(({ topic, properties }) => [topic, properties?.topicAlias]),
    [
      ['a/1', 1],
      ['', 1],
      ['a/2', undefined],
    ],
  );
  raw.publish('', 'y', 0, undefined, { properties: { topicAlias: 6 } });
  assert.equal((await raw.next('disconnect')).reasonCode, 0x82);
  const other = await RawClient.connect(t, plant.port, 'o', { version: 5 });
  other.publish('x', 'y', 0, undefined, { properties: { topicAlias: 101 } });
  assert.equal((await other.next('disconnect')).reasonCode, 0x94);
});

test('a message that has expired or is too large for a subscriber is not sent to it, and its window goes on', async (t) => {
  const plant = await openPlant(t);
  const options = {
    version: 5,
    clean: false,
    properties: { sessionExpiryInterval: 60, maximumPacketSize: 200, receiveMaximum: 1 },
  };
  let raw = await RawClient.connect(t, plant.port, 's', options);
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 1 }] });
  await raw.next('suback');
  raw.socket.destroy();
  await until('gone', () => plant.broker.status().clients === 0);
  const publisher = await client(t, plant, { protocolVersion: 5 });
  await publisher.publishAsync('x', 'short', { qos: 1, properties: { messageExpiryInterval: 1 } });
  await publisher.publishAsync('x', Buffer.alloc(300), { qos: 1 });
  await publisher.publishAsync('x', 'long', { qos: 1, properties: { messageExpiryInterval: 100 } });
  const born = Date.now();
  await until('the first one has expired', () => Date.now() - born > 1100);
  raw = await RawClient.connect(t, plant.port, 's', options);
  const got = await raw.next('publish');
  assert.equal(String(got.payload), 'long');
  assert.ok(got.properties.messageExpiryInterval <= 99);
  const { dropped } = plant.broker.status();
  assert.deepEqual([dropped.expired, dropped['too-large']], [1, 1]);
  raw.send({ cmd: 'puback', messageId: got.messageId });
  await until('the queue is empty', () => plant.broker.status().queuedRows === 0);
  assert.equal((await plant.rows()).length, 3, 'the spool keeps what expires');
});

test('a shared group gets each message once, members of both versions, also one that is away', async (t) => {
  const plant = await openPlant(t);
  const four = await client(t, plant, { protocolVersion: 4 });
  const five = await client(t, plant, { protocolVersion: 5 });
  const all = [collect(four), collect(five)] as const;
  for (const member of [four, five]) await member.subscribeAsync('$share/g/x/+', { qos: 1 });
  const plain = await client(t, plant);
  const every = collect(plain);
  await plain.subscribeAsync('x/#', { qos: 1 });
  const publisher = await client(t, plant);
  for (let n = 0; n < 40; n++) await publisher.publishAsync('x/a', String(n), { qos: 1 });
  await until('all are there', () => all[0].length + all[1].length === 40 && every.length === 40);
  assert.ok(all[0].length > 10 && all[1].length > 10, 'they take turns');
  for (const member of [four, five]) await member.endAsync();
  const kept = { version: 5, clean: false, properties: { sessionExpiryInterval: 60 } };
  const away = await RawClient.connect(t, plant.port, 'k', kept);
  away.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '$share/g/x/+', qos: 1 }] });
  await away.next('suback');
  away.socket.destroy();
  await until('it is away', () => plant.broker.status().clients === 2);
  await publisher.publishAsync('x/a', 'later', { qos: 1 });
  await plant.restart();
  const back = await RawClient.connect(t, plant.port, 'k', kept);
  assert.equal(String((await back.next('publish')).payload), 'later');
});

test('no local, retain as published, retain handling and subscription identifiers', async (t) => {
  const plant = await openPlant(t);
  const raw = await RawClient.connect(t, plant.port, 's', { version: 5 });
  raw.publish('r', 'kept', 1, 1, { retain: true });
  await raw.next('puback');
  const subscribe = async (subscription: object, id: number) => {
    raw.send({
      cmd: 'subscribe',
      messageId: id,
      subscriptions: [subscription],
      properties: { subscriptionIdentifier: id },
    });
    assert.equal((await raw.next('suback')).granted[0], 1);
  };
  await subscribe({ topic: 'r', qos: 1, rh: 2, rap: true }, 1);
  await subscribe({ topic: '+', qos: 1, rh: 1, nl: true }, 2);
  const first = await raw.next('publish');
  assert.deepEqual([String(first.payload), first.properties.subscriptionIdentifier], ['kept', 2]);
  await subscribe({ topic: '+', qos: 1, rh: 1, nl: true }, 3);
  raw.publish('r', 'own', 1, 2, { retain: true });
  const own = await raw.next('publish');
  assert.deepEqual([String(own.payload), own.retain, own.properties.subscriptionIdentifier], ['own', true, 1]);
  const other = await client(t, plant);
  await other.publishAsync('r', 'foreign', { qos: 1, retain: true });
  const foreign = await raw.next('publish');
  assert.deepEqual(foreign.properties.subscriptionIdentifier.toSorted(), [1, 3]);
  raw.send({ cmd: 'unsubscribe', messageId: 9, unsubscriptions: ['+', 'nothing', 'r'] });
  assert.deepEqual((await raw.next('unsuback')).granted, [0, 0x11, 0]);
});

test('a client that floods is slowed down and not thrown out, and PING is answered below the mark', async (t) => {
  const plant = await openPlant(t, { limits: { pendingMessagesMax: 100 } });
  plant.hold = () => true;
  const raw = await RawClient.connect(t, plant.port, 'p', { version: 5 });
  for (let n = 1; n <= 50; n++) raw.publish('x', 'y', 1, n);
  await raw.ping();
  assert.equal(plant.broker.status().pausedClients, 0);
  const payload = Buffer.alloc(8192);
  for (let n = 51; n <= 2000; n++) raw.publish('x', payload, 1, n);
  await until('it is paused', () => plant.broker.status().pausedClients === 1);
  assert.ok(plant.broker.status().pending < 300);
  plant.hold = () => false;
  plant.release();
  let acked = 0;
  await until('all are acknowledged', () => {
    acked += raw.packets.splice(0).filter(({ cmd }) => cmd === 'puback').length;
    return acked === 2000;
  });
  assert.equal(plant.broker.status().pausedClients, 0);
});
