import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Subscription } from '../../src/ingest/subscription.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { compress } from '../../src/wire/compress.js';
import { pack, unpack } from '../../src/wire/msgpack.js';
import { rowsFrom } from '../helpers/batches.js';
import { ask } from '../helpers/historian.js';
import { openIngest, TOPIC } from '../helpers/ingest.js';
import { source } from '../helpers/rows.js';
import { TinyBroker } from '../helpers/tiny-broker.js';
import { until } from '../helpers/wait.js';

const bytes = (from: number, to: number) => encodeColumns(source(), rowsFrom(from, to));

for (const protocolVersion of [4, 5] as const) {
  test(`MQTT ${protocolVersion}: when the PUBACK arrives, another connection can read the rows`, async (t) => {
    const broker = await TinyBroker.open(t);
    const { path } = await openIngest(t, broker.url, { broker: { protocolVersion } });
    const seen: number[] = [];
    broker.intercept = (packet) => {
      if (packet.cmd === 'puback') seen.push(ask<{ n: number }>(path, 'SELECT count(*) AS n FROM readings')[0]!.n);
      return false;
    };
    for (let n = 0; n < 20; n++)
      broker.publish(
        TOPIC,
        n % 2 === 0 ? bytes(n * 10 + 1, n * 10 + 10) : await compress(bytes(n * 10 + 1, n * 10 + 10)),
      );
    await until('all acknowledged', () => broker.unacknowledged === 0);
    assert.deepEqual(
      broker.acknowledged,
      Array.from({ length: 20 }, (_, n) => n + 1),
      'in the order of arrival',
    );
    for (const [n, rows] of seen.entries()) assert.ok(rows >= (n + 1) * 10, `${rows} rows at acknowledgement ${n + 1}`);
  });

  test(`MQTT ${protocolVersion}: nothing is acknowledged before its delivery has resolved, and reading goes on`, async (t) => {
    const broker = await TinyBroker.open(t);
    const deliveries: (() => void)[] = [];
    const deliver = () => new Promise<void>((resolve) => deliveries.push(resolve));
    const options = {
      url: broker.url,
      clientId: 'c',
      topics: ['#'],
      protocolVersion,
      receiveMaximum: 3,
      keepaliveS: 1,
    };
    const subscription = await Subscription.open(options, deliver, new AbortController().signal);
    for (let n = 0; n < 3; n++) broker.publish(TOPIC, Buffer.of(n));
    await until('three are waiting', () => deliveries.length === 3);
    // Keepalives go on: the second ping means that the answer to the first has been read.
    await until('pings', () => broker.received.filter((packet) => packet.cmd === 'pingreq').length >= 2);
    assert.deepEqual(broker.acknowledged, []);
    // A broker that sends more than it may is not read any further.
    for (let n = 3; n < 6; n++) broker.publish(TOPIC, Buffer.of(n));
    await until('the fourth', () => deliveries.length === 4);
    deliveries[0]?.();
    await until('the fifth', () => deliveries.length === 5);
    for (const resolve of deliveries) resolve();
    await until('the sixth', () => deliveries.length === 6);
    deliveries[5]?.();
    await until('all', () => broker.acknowledged.length === 6);
    await subscription.close(1000);
    await until('a farewell', () => broker.received.some((packet) => packet.cmd === 'disconnect'));
  });
}

test('a lost PUBACK makes the batch come again, and it is absorbed', async (t) => {
  const broker = await TinyBroker.open(t);
  const { ingest } = await openIngest(t, broker.url);
  let dropped = 0;
  broker.intercept = (packet) => {
    if (packet.cmd !== 'puback' || dropped > 0) return false;
    dropped++;
    broker.drop();
    return true;
  };
  broker.publish(TOPIC, bytes(1, 10));
  await until('acknowledged', () => broker.unacknowledged === 0);
  const { stored, duplicates, batches, connected } = ingest.status();
  assert.deepEqual([stored, duplicates, batches, connected, dropped], [10, 10, 2, true, 1]);
});

test('bytes that are no batch are kept aside, then acknowledged, and block nothing', async (t) => {
  const broker = await TinyBroker.open(t);
  const { ingest, path } = await openIngest(t, broker.url);
  const future = pack({ ...(unpack(bytes(1, 2)) as object), v: 2 });
  for (const payload of [Buffer.from('junk'), future, Buffer.alloc(0), bytes(1, 2)]) broker.publish(TOPIC, payload);
  await until('all acknowledged', () => broker.unacknowledged === 0);
  const { deadBatches, stored, batches } = ingest.status();
  assert.deepEqual([deadBatches, stored, batches], [3, 2, 1]);
  const dead = ask<{ topic: string; code: string; bytes: Buffer }>(path, 'SELECT topic, code, bytes FROM dead_batches');
  assert.deepEqual(
    dead.map(({ topic, code }) => [topic, code]),
    [
      [TOPIC, 'wire.malformed'],
      [TOPIC, 'wire.version'],
      [TOPIC, 'wire.malformed'],
    ],
  );
  assert.ok(dead[1]?.bytes.equals(future));
});

test('a full store acknowledges nothing and takes the same batches once there is room', async (t) => {
  const broker = await TinyBroker.open(t);
  const { ingest, path } = await openIngest(t, broker.url, { historian: { bytesMax: 256 * 1024 } });
  for (let n = 0; n < 30; n++) broker.publish(TOPIC, bytes(n * 500 + 1, n * 500 + 500));
  await until('a refusal', () => /full/.test(ingest.status().problem ?? ''));
  await until('a second attempt', () => broker.connects.length >= 3);
  const acknowledged = broker.acknowledged.length;
  assert.ok(broker.unacknowledged > 0);
  assert.equal(ask<{ n: number }>(path, 'SELECT count(*) AS n FROM readings')[0]?.n, acknowledged * 500);
  await ingest.close();
  const { ingest: roomy } = await openIngest(t, broker.url, { historian: { path } });
  await until('all acknowledged', () => broker.unacknowledged === 0);
  const { stored, holes, conflicts, problem } = roomy.status();
  assert.deepEqual([stored, holes, conflicts, problem], [15_000, 0, 0, null]);
});
