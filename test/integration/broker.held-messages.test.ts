import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPlant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

const MESSAGES = 2_000;
/** Every so many messages one is held back, and every so many the held ones are let go. */
const HELD_EVERY = 7;
const RELEASED_EVERY = 150;
const CONNECTION_LOST_EVERY = 400;

for (const version of [4, 5]) {
  for (const qos of [1, 2] as const) {
    test(`messages held back among others reach a kept session once each, over lost connections (QoS ${qos}, version ${version})`, async (t) => {
      const plant = await openPlant(t);
      plant.hold = ({ payload }) => Number(Buffer.from(payload)) % HELD_EVERY === 0;
      const properties = version === 5 ? { sessionExpiryInterval: 600, receiveMaximum: 20 } : undefined;
      const connect = () => RawClient.connect(t, plant.port, 's', { version, clean: false, properties });
      const got: number[] = [];
      const dups = new Set<number>();
      let raw = await connect();
      const step = () => {
        for (const packet of raw.packets.splice(0)) {
          const { messageId } = packet;
          if (packet.cmd === 'publish') {
            const n = Number(packet.payload);
            if (packet.dup) dups.add(n);
            got.push(n);
            raw.send({ cmd: qos === 1 ? 'puback' : 'pubrec', messageId });
          } else if (packet.cmd === 'pubrel') raw.send({ cmd: 'pubcomp', messageId });
        }
      };
      raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos }] });
      await raw.next('suback');
      const durable: Promise<void>[] = [];
      for (let n = 0; n < MESSAGES; n++) {
        const message = { topic: 'x', payload: Buffer.from(String(n)), qos, retain: false, props: null };
        durable.push(plant.broker.publish([{ message, identity: null }]));
        if (n % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
        if (n % 20 === 0) step();
        if (n % RELEASED_EVERY === 0) plant.release();
        if (n % CONNECTION_LOST_EVERY === CONNECTION_LOST_EVERY - 1) {
          raw.socket.destroy();
          await until('the broker knows', () => plant.broker.status().clients === 0);
          if (n % (2 * CONNECTION_LOST_EVERY) > CONNECTION_LOST_EVERY) plant.release();
          raw = await connect();
        }
      }
      plant.release();
      await Promise.all(durable);
      await until('the queue is empty', () => {
        step();
        return plant.broker.status().queuedRows === 0;
      });
      assert.deepEqual(
        [...new Set(got)].toSorted((a, b) => a - b),
        Array.from({ length: MESSAGES }, (_, n) => n),
      );
      const twice = got.filter((n, i) => got.indexOf(n) !== i);
      assert.deepEqual(
        twice.filter((n) => !dups.has(n)),
        [],
        'what came twice was marked',
      );
      const passed = [...new Set(got)].filter((n) => n % HELD_EVERY !== 0);
      assert.deepEqual(
        passed,
        passed.toSorted((a, b) => a - b),
        'what was not held kept its order',
      );
    });
  }
}

test('a held message that leaves before rows of lower seq does not make them forgotten, nor comes twice', async (t) => {
  const plant = await openPlant(t);
  const properties = { sessionExpiryInterval: 600, receiveMaximum: 2 };
  const raw = await RawClient.connect(t, plant.port, 's', { version: 5, clean: false, properties });
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 1 }] });
  await raw.next('suback');
  const publish = (text: string) => {
    const message = { topic: 'x', payload: Buffer.from(text), qos: 1 as const, retain: false, props: null };
    return plant.broker.publish([{ message, identity: null }]);
  };
  plant.hold = ({ payload }) => String(payload) === 'held';
  const held = publish('held');
  await publish('first');
  const first = await raw.next('publish');
  await publish('waits');
  plant.release();
  await held;
  const ahead = await raw.next('publish');
  for (const { messageId } of [ahead, first]) raw.send({ cmd: 'puback', messageId });
  const last = await raw.next('publish');
  assert.deepEqual(
    [first, ahead, last].map(({ payload }) => String(payload)),
    ['first', 'held', 'waits'],
  );
  raw.send({ cmd: 'puback', messageId: last.messageId });
  await until('the queue is empty', () => plant.broker.status().queuedRows === 0);
  await raw.ping();
  assert.equal(raw.packets.length, 0);
});

test('a QoS 2 message sent again is not delivered again, and takes no place in the subscriber’s window', async (t) => {
  const plant = await openPlant(t);
  const kept = { clean: false };
  const subscriber = await RawClient.connect(t, plant.port, 's', kept);
  subscriber.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'x', qos: 1 }] });
  await subscriber.next('suback');
  const publisher = await RawClient.connect(t, plant.port, 'p', kept);
  for (let again = 0; again < 2_000; again++) publisher.publish('x', 'same', 2, 1, { dup: again > 0 });
  let acked = 0;
  await until('all are acknowledged', () => {
    acked += publisher.packets.splice(0).length;
    return acked === 2_000;
  });
  publisher.publish('x', 'other', 1, 2);
  const first = await subscriber.next('publish');
  const second = await subscriber.next('publish');
  assert.deepEqual([String(first.payload), String(second.payload)], ['same', 'other']);
  assert.equal(plant.broker.status().queuedRows, 2);
});

test('a client that sends and does not take its answers is not read any more', async (t) => {
  const plant = await openPlant(t, { limits: { socketBytesMax: 16 * 1024 } });
  const raw = await RawClient.connect(t, plant.port, 'p');
  raw.socket.pause();
  const pings = Buffer.alloc(128 * 1024, Buffer.from([0xc0, 0]));
  const flood = () => {
    if (raw.socket.writableLength < 1024 * 1024) raw.socket.write(pings);
    return plant.broker.status().pausedClients === 1;
  };
  await until('it is not read', flood);
  raw.socket.resume();
  await until('it is read again', () => plant.broker.status().pausedClients === 0);
  await raw.ping();
});
