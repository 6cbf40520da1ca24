/** What gives way when the queue of a client is full, by `sessionQueuePolicy`; the spool gives up nothing. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { BrokerLimits } from '../../src/broker/limits.js';
import { openPlant, type Plant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

const KEPT = { version: 5, clean: false, properties: { sessionExpiryInterval: 300 } };

async function subscribe(raw: RawClient, topic = 'x', qos = 1): Promise<void> {
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic, qos }] });
  await raw.next('suback');
}

/** A plant with one client, `s`, that has subscribed to `x` and is away. */
async function openAbsent(t: TestContext, limits: Partial<BrokerLimits>): Promise<Plant> {
  const plant = await openPlant(t, { limits });
  const absent = await RawClient.connect(t, plant.port, 's', KEPT);
  await subscribe(absent);
  absent.socket.destroy();
  await until('it is away', () => plant.broker.status().clients === 0);
  return plant;
}

/** Publishes these one after the other, each acknowledged. */
async function publish(t: TestContext, { port }: Plant, payloads: readonly string[]): Promise<void> {
  const writer = await RawClient.connect(t, port, 'w');
  for (const [n, payload] of payloads.entries()) {
    writer.publish('x', payload, 1, n + 1);
    await writer.next('puback');
  }
  writer.socket.destroy();
}

/** Takes and acknowledges what comes until the queue is empty. */
async function takeAll(raw: RawClient, plant: Plant): Promise<string[]> {
  const taken: string[] = [];
  while (plant.broker.status().queuedRows > 0) {
    const packet = await raw.next('publish');
    taken.push(String(packet.payload));
    raw.send({ cmd: 'puback', messageId: packet.messageId });
    await raw.ping();
  }
  return taken;
}

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => `${from + n}`);

for (const [sessionQueuePolicy, kept] of [
  ['drop-newest', numbers(0, 3)],
  ['drop-oldest', numbers(7, 10)],
] as const)
  test(`${sessionQueuePolicy}, rows: an absent client finds ${kept.join(', ')} of ten messages`, async (t) => {
    const limits = { sessionQueueRowsMax: 3, sessionQueuePolicy };
    const plant = await openAbsent(t, limits);
    await publish(t, plant, numbers(0, 5));
    await until('the queue to fit', () => plant.broker.status().queuedRows === 3);
    await plant.restart({ limits });
    assert.equal(plant.broker.status().queuedRows, 3);
    await publish(t, plant, numbers(5, 10));
    await until('all to be decided', () => plant.broker.status().dropped['session-queue-full'] === 5);
    assert.equal(plant.broker.status().queuedRows, 3);
    assert.deepEqual(await takeAll(await RawClient.connect(t, plant.port, 's', KEPT), plant), kept);
    assert.equal(plant.broker.status().queuedBytes, 0);
    assert.equal((await plant.rows()).length, 10, 'the spool has all of them');
  });

for (const [sessionQueuePolicy, kept] of [
  ['drop-newest', ['a400', 'b400', 'd100']],
  ['drop-oldest', ['b400', 'c400', 'd100']],
] as const)
  test(`${sessionQueuePolicy}, bytes: ${kept.join(', ')} stay; what is larger than the queue drives nothing out`, async (t) => {
    const plant = await openAbsent(t, { sessionQueueBytesMax: 900, sessionQueuePolicy });
    const sized = (name: string) => name.padEnd(Number(name.slice(1)), '.');
    await publish(t, plant, ['a400', 'b400', 'c400', 'd100', 'e901'].map(sized));
    await until('all to be decided', () => plant.broker.status().dropped['session-queue-full'] === 2);
    assert.equal(plant.broker.status().queuedBytes, 900);
    const found = await takeAll(await RawClient.connect(t, plant.port, 's', KEPT), plant);
    assert.deepEqual(found, kept.map(sized));
    assert.equal((await plant.rows()).length, 5, 'the spool has all of them');
  });

test('drop-oldest: a client that is slow gets the newest, and what it has in its hands stays its own', async (t) => {
  const plant = await openPlant(t, { limits: { sessionQueueRowsMax: 20, sessionQueuePolicy: 'drop-oldest' } });
  const properties = { sessionExpiryInterval: 300, receiveMaximum: 2 };
  const slow = await RawClient.connect(t, plant.port, 's', { ...KEPT, properties });
  await subscribe(slow);
  const writer = await RawClient.connect(t, plant.port, 'w');
  for (let n = 0; n < 2; n++) {
    writer.publish('x', `${n}`, 1, n + 1);
    await writer.next('puback');
  }
  const hands = [await slow.next('publish'), await slow.next('publish')];
  for (let n = 2; n < 300; n++) writer.publish('x', `${n}`, 1, n + 1);
  for (let n = 2; n < 300; n++) await writer.next('puback');
  await until('the queue to fit', () => plant.broker.status().queuedRows === 20);
  assert.equal(plant.broker.status().dropped['session-queue-full'], 280);
  assert.deepEqual(
    hands.map(({ payload }) => String(payload)),
    ['0', '1'],
  );
  for (const { messageId } of hands) slow.send({ cmd: 'puback', messageId });
  assert.deepEqual(await takeAll(slow, plant), numbers(282, 300));
  assert.equal(plant.broker.status().queuedBytes, 0);
});

test('drop-oldest: a client that reads while its queue overflows gets each message once, in order, and the rest is counted', async (t) => {
  const total = 3_000;
  const plant = await openPlant(t, { limits: { sessionQueueRowsMax: 50, sessionQueuePolicy: 'drop-oldest' } });
  const properties = { sessionExpiryInterval: 300, receiveMaximum: 10 };
  const reader = await RawClient.connect(t, plant.port, 's', { ...KEPT, properties });
  await subscribe(reader);
  const writer = await RawClient.connect(t, plant.port, 'w');
  const writing = (async () => {
    for (let n = 0; n < total; n += 100) {
      for (let i = n; i < n + 100; i++) writer.publish('x', `${i}`, 1, i + 1);
      for (let i = n; i < n + 100; i++) await writer.next('puback');
    }
  })();
  const taken: number[] = [];
  const reading = (async () => {
    while (taken.at(-1) !== total - 1) {
      const packet = await reader.next('publish');
      taken.push(Number(packet.payload));
      reader.send({ cmd: 'puback', messageId: packet.messageId });
    }
  })();
  await Promise.all([writing, reading]);
  await until('the queue is empty', () => plant.broker.status().queuedRows === 0);
  const { queuedBytes, dropped } = plant.broker.status();
  assert.ok(taken.every((n, at) => at === 0 || n > (taken[at - 1] as number)));
  assert.deepEqual([taken.length + dropped['session-queue-full'], queuedBytes], [total, 0]);
  assert.equal((await plant.rows()).length, total, 'the spool has all of them');
});

for (const [sessionQueuePolicy, kept] of [
  ['drop-newest', numbers(0, 4)],
  ['drop-oldest', ['0', ...numbers(7, 10)]],
] as const)
  test(`${sessionQueuePolicy}: the same for the queue of a clean session, where QoS 0 drives nobody out`, async (t) => {
    const plant = await openPlant(t, { limits: { cleanQueueMessagesMax: 3, sessionQueuePolicy } });
    const slow = await RawClient.connect(t, plant.port, 's', { version: 5, properties: { receiveMaximum: 1 } });
    await subscribe(slow);
    await publish(t, plant, numbers(0, 10));
    const zero = await RawClient.connect(t, plant.port, 'z');
    zero.publish('x', 'zero', 0, 0);
    await zero.ping();
    await until('all to be decided', () => plant.broker.status().dropped['slow-subscriber'] === 1);
    assert.equal(plant.broker.status().dropped['clean-queue-full'], 6);
    for (const text of kept) {
      const { payload, messageId } = await slow.next('publish');
      assert.equal(String(payload), text);
      slow.send({ cmd: 'puback', messageId });
    }
  });
