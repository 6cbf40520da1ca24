import assert from 'node:assert/strict';
import { test } from 'node:test';
import { client, collect, openPlant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

test('retained messages survive a restart, an empty one removes, and properties come back byte for byte', async (t) => {
  const plant = await openPlant(t);
  const publisher = await client(t, plant, { protocolVersion: 5 });
  const userProperties = { b: ['1', '3'], a: '2' };
  await publisher.publishAsync('r/a', 'one', {
    qos: 1,
    retain: true,
    properties: { userProperties, contentType: 'text' },
  });
  await publisher.publishAsync('r/b', 'two', { qos: 1, retain: true });
  await publisher.publishAsync('r/b', '', { qos: 1, retain: true });
  await publisher.publishAsync('r/c/d', 'three', { qos: 2, retain: true });
  await plant.restart();
  const subscriber = await RawClient.connect(t, plant.port, 's', { version: 5 });
  const subscriptions = [
    { topic: 'r/#', qos: 1 },
    { topic: '+/+/d', qos: 2 },
  ];
  subscriber.send({ cmd: 'subscribe', messageId: 1, subscriptions, properties: { subscriptionIdentifier: 7 } });
  await subscriber.next('suback');
  const got = [await subscriber.next('publish'), await subscriber.next('publish')];
  got.sort((a, b) => (a.topic < b.topic ? -1 : 1));
  assert.deepEqual(
    got.map(({ topic, payload, qos, retain }) => [topic, String(payload), qos, retain]),
    [
      ['r/a', 'one', 1, true],
      ['r/c/d', 'three', 2, true],
    ],
  );
  assert.deepEqual({ ...got[0].properties.userProperties }, userProperties);
  assert.equal(got[0].properties.contentType, 'text');
  assert.equal(got[0].properties.subscriptionIdentifier, 7);
  await subscriber.ping();
  assert.equal(subscriber.packets.length, 0, 'nothing else, and each once');
});

for (const kept of [false, true]) {
  test(`who subscribes while a topic is published gets the newest value and no older one after it (kept: ${kept})`, async (t) => {
    const plant = await openPlant(t);
    let n = 0;
    let stop = false;
    const feeding = (async () => {
      while (!stop) {
        const message = { topic: 'r/a', payload: Buffer.from(String(++n)), qos: 1 as const, retain: true, props: null };
        await plant.broker.publish([
          { message, identity: null },
          { message: { ...message, payload: Buffer.from(String(++n)) }, identity: null },
        ]);
      }
    })();
    for (let round = 0; round < 30; round++) {
      const raw = await RawClient.connect(t, plant.port, `s${round}`, { clean: !kept });
      raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'r/#', qos: 1 }] });
      const values: number[] = [];
      await until('a live value after the retained one', () => {
        for (const packet of raw.packets.splice(0)) {
          if (packet.cmd !== 'publish') continue;
          values.push(Number(packet.payload));
          raw.send({ cmd: 'puback', messageId: packet.messageId });
        }
        return values.length > 5;
      });
      assert.deepEqual(
        values,
        Array.from({ length: values.length }, (_, i) => (values[0] as number) + i),
      );
      raw.socket.destroy();
    }
    stop = true;
    await feeding;
  });
}

test('a retained value whose commit is held while somebody subscribes still reaches the subscriber', async (t) => {
  const plant = await openPlant(t);
  for (const clean of [true, false]) {
    const publisher = await RawClient.connect(t, plant.port, 'p');
    publisher.publish('r/a', 'old', 1, 1, { retain: true });
    await publisher.next('puback');
    plant.hold = () => true;
    publisher.publish('r/a', 'new', 1, 2, { retain: true });
    await until('it is held', () => plant.held.length === 1);
    const raw = await RawClient.connect(t, plant.port, 's', { clean });
    raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'r/a', qos: 1 }] });
    await raw.next('suback');
    assert.equal(String((await raw.next('publish')).payload), 'old');
    plant.release();
    plant.hold = () => false;
    assert.equal(String((await raw.next('publish')).payload), 'new');
    raw.socket.destroy();
  }
});

test('retained messages have a limit; beyond it messages pass but are not kept, and that is counted', async (t) => {
  const plant = await openPlant(t, { limits: { retainedMax: 2 } });
  // The broker's own values under $SYS take no place.
  const publisher = await client(t, plant);
  for (let n = 0; n < 5; n++) await publisher.publishAsync(`r/${n}`, 'x', { qos: 1, retain: true });
  assert.equal(plant.broker.status().retained, 2);
  assert.equal(plant.broker.status().dropped['retained-full'], 3);
  await publisher.publishAsync('r/0', 'newer', { qos: 1, retain: true });
  assert.equal(plant.broker.status().dropped['retained-full'], 3, 'a topic that is in may change');
  await plant.restart();
  assert.equal(plant.broker.status().retained, 2);
});

for (const version of [4, 5]) {
  test(`a will is published when its client vanishes and not when it says goodbye (version ${version})`, async (t) => {
    const plant = await openPlant(t);
    const watcher = await client(t, plant);
    const received = collect(watcher);
    await watcher.subscribeAsync('will/#', { qos: 1 });
    const will = (topic: string) => ({ version, will: { topic, payload: Buffer.from('gone'), qos: 1, retain: true } });
    const polite = await RawClient.connect(t, plant.port, 'polite', will('will/polite'));
    polite.send({ cmd: 'disconnect', reasonCode: 0 });
    await polite.gone();
    const lost = await RawClient.connect(t, plant.port, 'lost', will('will/lost'));
    lost.socket.destroy();
    await until('the will', () => received.length > 0);
    assert.deepEqual(
      received.map(({ topic, text }) => [topic, text]),
      [['will/lost', 'gone']],
    );
    assert.equal((await plant.rows()).length, 1, 'it is spooled like any message');
    for (const topic of ['#', 'a/+/b', '$share/g/x', '$SYS/x', '']) {
      const raw = await RawClient.open(t, plant.port, version);
      raw.send({
        cmd: 'connect',
        protocolId: 'MQTT',
        protocolVersion: version,
        clientId: 'w',
        clean: true,
        keepalive: 0,
        will: { topic: topic || 'x', payload: Buffer.from('x'), qos: 0, retain: false },
      });
      if (topic === '') assert.ok(await raw.next('connack'));
      else await raw.gone();
    }
  });
}

test('a will with a delay waits, is called off by a return, and comes after a crash of the broker too', async (t) => {
  const plant = await openPlant(t);
  const options = (delay: number) => ({
    version: 5,
    clean: false,
    properties: { sessionExpiryInterval: 600 },
    will: {
      topic: 'w',
      payload: Buffer.from('gone'),
      qos: 1,
      retain: false,
      properties: { willDelayInterval: delay, contentType: 'x' },
    },
  });
  const watcher = await RawClient.connect(t, plant.port, 'watcher', { version: 5 });
  watcher.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'w', qos: 0 }] });
  await watcher.next('suback');
  let raw = await RawClient.connect(t, plant.port, 's', options(1));
  raw.socket.destroy();
  await until('gone', () => plant.broker.status().clients === 1);
  raw = await RawClient.connect(t, plant.port, 's', options(1));
  assert.equal((await plant.rows()).length, 0);
  raw.socket.destroy();
  const will = await watcher.next('publish');
  assert.equal(will.properties.contentType, 'x');
  assert.equal((await plant.rows()).length, 1, 'the first one was called off');
  raw = await RawClient.connect(t, plant.port, 's', options(1));
  // The plug is pulled: the store goes away under the broker, so nothing of its close is written.
  await plant.store.close();
  await plant.restart();
  await until('the will of the crashed run', async () => (await plant.rows()).length === 2);
});

test('wills of the clients that a shutdown throws out are published before the file is closed', async (t) => {
  const plant = await openPlant(t);
  const raw = await RawClient.connect(t, plant.port, 's', {
    version: 5,
    will: { topic: 'w', payload: Buffer.from('x'), qos: 1, retain: true },
  });
  await plant.restart();
  assert.equal((await raw.next('disconnect')).reasonCode, 0x8b);
  assert.deepEqual(
    (await plant.rows()).map(({ topic }) => topic),
    ['w'],
  );
});

test('the properties of a will come as they were written, user properties in their order', async (t) => {
  const plant = await openPlant(t);
  const watcher = await RawClient.connect(t, plant.port, 'watcher', { version: 5 });
  const chunks: Buffer[] = [];
  watcher.socket.on('data', (chunk) => void chunks.push(chunk as Buffer));
  watcher.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'w/#', qos: 0 }] });
  await watcher.next('suback');
  const text = (value: string) => Buffer.concat([Buffer.from([0, value.length]), Buffer.from(value)]);
  const user = (name: string, value: string) => Buffer.concat([Buffer.from([0x26]), text(name), text(value)]);
  const pairs = [user('b', '1'), user('a', '2'), user('b', '3'), user('0', '4')];
  const properties = Buffer.concat([Buffer.from([0x03]), text('text/plain'), ...pairs, Buffer.from([1, 1])]);
  const dying = await RawClient.open(t, plant.port, 5);
  const head = Buffer.concat([text('MQTT'), Buffer.from([5, 6, 0, 0, 3, 0x21, 0, 9]), text('dying')]);
  const body = Buffer.concat([head, Buffer.from([properties.length]), properties, text('w/a'), text('gone')]);
  dying.socket.write(Buffer.concat([Buffer.from([0x10, body.length]), body]));
  await dying.next('connack');
  dying.socket.destroy();
  assert.equal(String((await watcher.next('publish')).payload), 'gone');
  assert.ok(Buffer.concat(chunks).includes(properties));
});
