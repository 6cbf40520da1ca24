import assert from 'node:assert/strict';
import { test } from 'node:test';
import { client, collect, openPlant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

for (const version of [4, 5]) {
  test(`a publish is acknowledged after its commit and delivered after that (version ${version})`, async (t) => {
    const plant = await openPlant(t);
    const subscriber = await client(t, plant, { protocolVersion: version as 4 });
    const received = collect(subscriber);
    await subscriber.subscribeAsync('plant/#', { qos: 1 });
    plant.hold = () => true;
    const raw = await RawClient.connect(t, plant.port, 'p', { version });
    raw.publish('plant/a', 'one', 1, 7);
    raw.publish('plant/b', 'two', 2, 8);
    await until('both wait', () => plant.held.length === 2);
    await raw.ping();
    assert.equal(raw.packets.length, 0);
    assert.equal(received.length, 0);
    assert.equal((await plant.rows()).length, 0);
    plant.release();
    assert.equal((await raw.next('puback')).messageId, 7);
    assert.equal((await raw.next('pubrec')).messageId, 8);
    const rows = await plant.rows();
    assert.deepEqual(
      rows.map((row) => [row.topic, Buffer.from(row.payload).toString(), row.qos]),
      [
        ['plant/a', 'one', 1],
        ['plant/b', 'two', 2],
      ],
    );
    await until('both are delivered', () => received.length === 2);
    assert.deepEqual(
      received.map(({ text, qos }) => [text, qos]),
      [
        ['one', 1],
        ['two', 1],
      ],
    );
  });

  test(`acknowledgements keep the order of arrival when commits do not (version ${version})`, async (t) => {
    const plant = await openPlant(t);
    plant.hold = ({ topic }) => topic.startsWith('plant/');
    const raw = await RawClient.connect(t, plant.port, 'p', { version });
    raw.publish('local/a', '1', 1, 1);
    raw.publish('plant/b', '2', 1, 2);
    raw.publish('local/c', '3', 1, 3);
    raw.publish('$denied', '4', 1, 4);
    raw.publish('local/d', '5', 2, 5);
    await raw.next('puback');
    await until('the others are stored', async () => (await plant.rows()).length === 3);
    await raw.ping();
    assert.equal(raw.packets.length, 0, 'what came after the held message waits for it');
    plant.release();
    await raw.next('pubrec');
    assert.deepEqual(
      raw.packets.map((packet) => packet.messageId),
      [2, 3, 4],
    );
    const codes = raw.packets.map((packet) => (packet as { reasonCode?: number }).reasonCode ?? 0);
    assert.deepEqual(codes, version === 5 ? [0, 0, 0x87] : [0, 0, 0]);
  });
}

test('a client that goes away while its publish is held gets no acknowledgement, and the message is kept', async (t) => {
  const plant = await openPlant(t);
  plant.hold = () => true;
  const raw = await RawClient.connect(t, plant.port, 'p');
  raw.publish('plant/a', 'one', 1, 7);
  await until('it waits', () => plant.held.length === 1);
  raw.socket.destroy();
  await until('the broker notices', () => plant.broker.status().clients === 0);
  plant.release();
  await until('it is stored', async () => (await plant.rows()).length === 1);
});

test('a message that cannot be stored is not acknowledged, and the broker lives on', async (t) => {
  const plant = await openPlant(t);
  const raw = await RawClient.connect(t, plant.port, 'p', { version: 5 });
  const other = await RawClient.connect(t, plant.port, 'q');
  await plant.store.close();
  raw.publish('plant/a', 'one', 1, 7);
  assert.equal((await raw.next('disconnect')).reasonCode, 0x83);
  await raw.gone();
  assert.equal(raw.packets.length, 0);
  await other.ping();
});

test('a QoS 2 message sent again is stored once, also across a connection and a restart', async (t) => {
  const plant = await openPlant(t);
  const options = { version: 5, clean: false, properties: { sessionExpiryInterval: 600 } };
  let raw = await RawClient.connect(t, plant.port, 'p', options);
  raw.publish('plant/a', 'one', 2, 7);
  await raw.next('pubrec');
  raw.socket.destroy();
  raw = await RawClient.connect(t, plant.port, 'p', options);
  raw.publish('plant/a', 'one', 2, 7, { dup: true });
  await raw.next('pubrec');
  raw.socket.destroy();
  await plant.restart();
  raw = await RawClient.connect(t, plant.port, 'p', options);
  raw.publish('plant/a', 'one', 2, 7, { dup: true });
  await raw.next('pubrec');
  assert.equal((await plant.rows()).length, 1);
  raw.send({ cmd: 'pubrel', messageId: 7 });
  assert.equal((await raw.next('pubcomp')).reasonCode, 0);
  raw.publish('plant/a', 'two', 2, 7);
  await raw.next('pubrec');
  assert.equal((await plant.rows()).length, 2, 'the id is free again');
  raw.send({ cmd: 'pubrel', messageId: 9 });
  assert.equal((await raw.next('pubcomp')).reasonCode, 0x92);
});

test('a QoS 2 message of a clean session sent twice is stored once', async (t) => {
  const plant = await openPlant(t);
  const raw = await RawClient.connect(t, plant.port, 'p');
  raw.publish('plant/a', 'one', 2, 7);
  raw.publish('plant/a', 'one', 2, 7, { dup: true });
  await raw.next('pubrec');
  await raw.next('pubrec');
  raw.send({ cmd: 'pubrel', messageId: 7 });
  await raw.next('pubcomp');
  assert.equal((await plant.rows()).length, 1);
});

test('messages of this process are durable when publish resolves, with their identity', async (t) => {
  const plant = await openPlant(t);
  const subscriber = await client(t, plant);
  const received = collect(subscriber);
  await subscriber.subscribeAsync('plant/#', { qos: 1 });
  const message = {
    topic: 'plant/press/temp',
    payload: Buffer.from('21.5'),
    qos: 1 as const,
    retain: true,
    props: null,
  };
  const identity = { type: 'f' as const, asset: 'press', metric: 'temp', deviceTs: 1 as never };
  await plant.broker.publish([
    { message, identity },
    { message: { ...message, payload: Buffer.from('22') }, identity },
  ]);
  const rows = await plant.rows();
  assert.deepEqual(
    rows.map((row) => [row.asset, row.type]),
    [
      ['press', 'f'],
      ['press', 'f'],
    ],
  );
  await until('both are delivered', () => received.length === 2);
  assert.equal(plant.broker.status().retained, 1, 'and the newest is retained');
});
