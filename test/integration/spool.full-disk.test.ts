import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { MqttClient } from 'mqtt';
import type { Gateway } from '../../src/gateway/gateway.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { openGateway, plantClient } from '../helpers/gateway.js';
import { canMount, smallDisk } from '../helpers/tmpfs.js';
import { openCloud } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

const MIB = 1024 * 1024;
/** Readings of about 1 KB each: a small disk is full after some thousands. */
const payload = (n: number) => JSON.stringify({ ts: 1_790_000_000_000 + n, value: `${n}`.padEnd(1_000, '.') });

/** Publishes `count` messages with as many in flight as the broker takes, and counts what has been acknowledged. */
function publishAll(client: MqttClient, count: number, topic = 'plant/press/text', from = 0) {
  const acked = new Set<number>();
  for (let n = from; n < from + count; n++)
    client.publishAsync(topic, payload(n), { qos: 1 }).then(
      () => acked.add(n),
      () => {},
    );
  return acked;
}

/** The values that have arrived in the cloud, and what it was told of those that will not. */
async function openHistorian(t: TestContext) {
  const values = new Set<number>();
  const gaps: { metric: string | null; from: number; to: number; count: number; reason: string }[] = [];
  const lost: { from: number; to: number; reason: string }[] = [];
  const { cloud } = await openCloud(t, {
    onPublish: ({ payload }) => {
      const batch = decodeBatch(payload);
      lost.push(...batch.lost);
      for (const row of batch.rows) {
        if (row.type === 's') values.add(Number.parseInt(row.value as string, 10));
        else if (row.type === 'g')
          gaps.push({ metric: row.metric, ...row.gap, count: row.gap.count ?? 0, reason: row.gap.reason });
      }
    },
  });
  return { cloud, values, gaps, lost };
}

const isFull = async (gateway: Gateway) => (await gateway.status()).spool.state === 'full';
const usedBytes = (dir: string) =>
  readdirSync(join(dir, 'data')).reduce((sum, name) => sum + statSync(join(dir, 'data', name)).size, 0);

/** Everything acknowledged is in the file or in the cloud, exactly, at every moment. */
async function assertBalanced(gateway: Gateway) {
  const { spool, causes } = await gateway.status();
  assert.equal(spool.received, spool.rows + spool.acknowledged + spool.dropped + spool.dead);
  assert.ok(spool.balanced, causes.join('; '));
  return spool;
}

test('at the ceiling: acknowledgements wait, local traffic goes on, and everything follows when the cloud is back', {
  skip: canMount,
}, async (t) => {
  const disk = smallDisk(t, 24);
  const { cloud, values } = await openHistorian(t);
  cloud.set({ absent: true });
  const gateway = await openGateway(t, disk.dir, { spool: { bytesMax: '12MiB' }, upstreamPort: cloud.port });
  const client = await plantClient(t, gateway);
  const acked = publishAll(client, 12_000);
  await until('full', () => isFull(gateway), 30_000);
  const full = await assertBalanced(gateway);
  assert.ok(full.rows < 12_000);
  assert.ok(usedBytes(disk.dir) <= 12 * MIB * 1.05, `${usedBytes(disk.dir)} bytes on disk`);
  assert.ok(full.heldMessages > 0);
  const { causes, state } = await gateway.status();
  assert.equal(state, 'degraded');
  assert.match(causes.join(), /acknowledgements wait: the spool has reached spool.bytesMax/);

  const other = await plantClient(t, gateway, 'hmi');
  await other.publishAsync('local/door', 'open', { qos: 1 });
  assert.ok(acked.size < 12_000);

  cloud.set({ absent: false });
  await until('all are acknowledged', () => acked.size === 12_000, 60_000);
  await until('all have arrived', () => values.size === 12_000, 30_000);
  await until('empty', async () => (await assertBalanced(gateway)).rows === 0);
  assert.equal((await gateway.status()).spool.state, 'open');
});

test('no space left on the device: nothing is lost, deletions still work, and it resumes by itself', {
  skip: canMount,
}, async (t) => {
  const disk = smallDisk(t, 24);
  const { cloud, values } = await openHistorian(t);
  cloud.set({ absent: true });
  const gateway = await openGateway(t, disk.dir, { spool: { bytesMax: '1GiB' }, upstreamPort: cloud.port });
  disk.fill(8 * MIB);
  assert.ok(existsSync(join(disk.dir, 'data/spool.db-ballast')));
  const client = await plantClient(t, gateway);
  const acked = publishAll(client, 15_000);
  await until('full', () => isFull(gateway), 30_000);
  // The first is what SQLite says, the second what the gateway sees coming; either may be first.
  assert.match((await gateway.status()).causes.join(), /the device is full|less than spool.diskFreeMin is free/);
  cloud.set({ absent: false });
  await until('all are acknowledged', () => acked.size === 15_000, 60_000);
  await until('all have arrived', () => values.size === 15_000, 30_000);
  await until('empty', async () => (await assertBalanced(gateway)).rows === 0);
  await client.publishAsync('plant/press/text', payload(99_999), { qos: 1 });
  await until('the ballast is back', () => existsSync(join(disk.dir, 'data/spool.db-ballast')));
});

test('somebody else fills the device, also across a kill and a start: it delivers, and takes again when there is space', {
  skip: canMount,
}, async (t) => {
  const disk = smallDisk(t, 24);
  const { cloud, values } = await openHistorian(t);
  cloud.set({ absent: true });
  const options = { spool: { bytesMax: '8MiB' }, upstreamPort: cloud.port };
  const gateway = await openGateway(t, disk.dir, options);
  const client = await plantClient(t, gateway);
  const first = publishAll(client, 1_000);
  await until('spooled', () => first.size === 1_000);
  disk.fill();
  const second = publishAll(client, 3_000, undefined, 1_000);
  await until('full', () => isFull(gateway), 30_000);
  await client.endAsync(true);
  const spooled = (await assertBalanced(gateway)).rows;
  await gateway.close(AbortSignal.abort());
  // Whatever an end in order has freed is taken, too.
  disk.fill();

  const again = await openGateway(t, disk.dir, options);
  assert.equal((await assertBalanced(again)).rows, spooled, 'a start on a full disk has all of it');
  cloud.set({ absent: false });
  await until('delivered from the full disk', () => [...first, ...second].every((n) => values.has(n)), 30_000);
  disk.free();
  const later = await plantClient(t, again, 'plc-2');
  await later.publishAsync('plant/press/text', payload(50_000), { qos: 1 });
  await until('the newest', () => values.has(50_000));
  await until('empty', async () => (await assertBalanced(again)).rows === 0);
});

test('drop-oldest: nobody waits, and every missing reading is in a gap record', { skip: canMount }, async (t) => {
  const disk = smallDisk(t, 24);
  const { cloud, values, gaps, lost } = await openHistorian(t);
  cloud.set({ absent: true });
  const spool = { bytesMax: '8MiB', whenFull: 'drop-oldest' };
  const gateway = await openGateway(t, disk.dir, { spool, upstreamPort: cloud.port });
  const client = await plantClient(t, gateway);
  const acked = publishAll(client, 15_000);
  await until('all are acknowledged although the cloud is away', () => acked.size === 15_000, 60_000);
  const full = await assertBalanced(gateway);
  assert.equal(full.acknowledged, 0, 'the cloud is away');
  assert.ok(usedBytes(disk.dir) <= 8 * MIB * 1.05, `${usedBytes(disk.dir)} bytes on disk, ${JSON.stringify(full)}`);
  assert.match((await gateway.status()).causes.join(), /rows were dropped/);
  cloud.set({ absent: false });
  await until('empty', async () => (await assertBalanced(gateway)).rows === 0, 30_000);
  // Counted at the end: a record of the gateway's own may have needed room after the last publish.
  const { dropped } = await assertBalanced(gateway);
  assert.ok(dropped > 5_000, `${dropped} dropped; when all were acknowledged: ${JSON.stringify(full)}`);
  const missing = () => gaps.filter(({ reason }) => reason === 'spool-full').reduce((sum, { count }) => sum + count, 0);
  const told = () => lost.reduce((sum, { from, to }) => sum + to - from + 1, 0);
  await until('every dropped row is told of', () => missing() >= dropped && told() >= dropped);
  assert.equal(missing(), dropped);
  assert.equal(values.size + missing(), 15_000, 'arrived and missing are all');
  assert.ok(values.has(14_999), 'the newest are kept');
  for (let n = 0; n < 15_000; n++) {
    const ts = 1_790_000_000_000 + n;
    assert.ok(values.has(n) || gaps.some(({ from, to }) => from <= ts && ts <= to), `${n} is accounted for`);
  }
  assert.ok(full.rows > 0);
});

test('two classes: the one that must be kept waits and loses nothing, the other gives way', {
  skip: canMount,
}, async (t) => {
  const disk = smallDisk(t, 24);
  const { cloud, values, gaps } = await openHistorian(t);
  cloud.set({ absent: true });
  const spool = { bytesMax: '8MiB', classes: [{ topics: ['plant/+/trace'], whenFull: 'drop-oldest' }] };
  const gateway = await openGateway(t, disk.dir, { spool, upstreamPort: cloud.port });
  const keeper = await plantClient(t, gateway, 'keeper');
  const tracer = await plantClient(t, gateway, 'tracer');
  const kept = publishAll(keeper, 1_500, 'plant/press/count');
  const traced = publishAll(tracer, 12_000, 'plant/press/trace', 100_000);
  await until('all are acknowledged', () => kept.size === 1_500 && traced.size === 12_000, 60_000);
  const { dropped } = await assertBalanced(gateway);
  assert.ok(dropped > 1_000);
  cloud.set({ absent: false });
  await until('empty', async () => (await assertBalanced(gateway)).rows === 0, 30_000);
  await until('all kept ones arrived', () => [...kept].every((n) => values.has(n)));
  assert.ok(gaps.every(({ metric }) => metric === 'trace'));
  const missing = gaps.reduce((sum, { count }) => sum + count, 0);
  assert.equal(missing, dropped);
  assert.equal(values.size + missing, 13_500);
});
