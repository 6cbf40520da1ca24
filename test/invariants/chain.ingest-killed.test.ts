/** The cloud side under SIGKILL: the historian is complete afterwards, and what had to come twice is there once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { WanProxy } from '../../src/sim/wan.js';
import { historianFile, ingestConfig, openGateway } from '../helpers/chain.js';
import { ask } from '../helpers/historian.js';
import { Program } from '../helpers/program.js';
import { Publisher } from '../helpers/publisher.js';
import { Random } from '../helpers/random.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const KILLS = 6;
/** Device times lie a second apart, in the past. */
const T0 = 1_700_000_000_000;
const reading = (n: number): string => JSON.stringify({ ts: T0 + n * 1_000, value: n });

test('killed again and again while batches flow, the ingest has every reading once, and no conflict', async (t) => {
  const seed = Number(process.env.HOLDFAST_SEED ?? Date.now() % 1_000_000);
  t.diagnostic(`HOLDFAST_SEED=${seed}`);
  const random = new Random(seed);
  const dir = tempDir(t);
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const config = ingestConfig(dir, cloud.port);
  const start = () => new Program(t, ['ingest', '--config', config, '--json']);

  let ingest = start();
  await until('the ingest to be connected', async () => (await ingest.status()).connected);
  const gateway = await openGateway(t, { dir, cloud: cloud.port, upstream: { batchRowsMax: 20 } });
  const port = Number(new URL((await gateway.ready()).mqtt[0]!).port);
  const publishers = ([4, 5] as const).map(
    (version) =>
      new Publisher(t, () => port, {
        clientId: `m${version}`,
        version,
        qos: 1,
        window: 4,
        topic: () => `plant/mixer/m${version}`,
        payload: reading,
      }),
  );
  for (let kill = 0; kill < KILLS; kill++) {
    const delivered = cloud.stats().delivered + random.int(1, 40);
    await until('batches to be delivered', () => cloud.stats().delivered >= delivered);
    await delay(random.int(0, 6));
    await ingest.kill();
    ingest = start();
  }
  await Promise.all(publishers.map((publisher) => publisher.finish()));
  assert.equal((await gateway.end()).code, 0, gateway.stderr);
  await until('the cloud to hand over everything', async () => cloud.stats().queued === 0);
  const status = await ingest.status();
  assert.equal((await ingest.end()).code, 0, ingest.stderr);

  assert.deepEqual([status.holes, status.conflicts, status.quarantined, status.deadBatches], [0, 0, 0, 0]);
  assert.equal(status.rows, status.stored + status.duplicates + status.opaque);
  for (const { id, promised } of publishers) {
    const sql = 'SELECT device_ts AS ts, value FROM readings_view WHERE metric_name = ? ORDER BY device_ts';
    const rows = ask<{ ts: number; value: number }>(historianFile(dir), sql, id);
    assert.deepEqual(
      rows.map(({ ts, value }) => `${ts}=${value}`),
      [...promised].sort((a, b) => a - b).map((n) => `${T0 + n * 1_000}=${n}`),
    );
  }
  t.diagnostic(`${status.stored} stored, ${status.duplicates} duplicates absorbed`);
});

test('killed between its commit and its acknowledgement, it knows what comes again', async (t) => {
  const dir = tempDir(t);
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const line = await WanProxy.open({ to: { host: '127.0.0.1', port: cloud.port } });
  t.after(() => line.close());
  const config = ingestConfig(dir, line.port);
  const first = await Program.open(t, 'ingest', '--config', config);
  await until('the ingest to be connected', async () => (await first.status()).connected);
  await line.set({ stall: 'up' });

  const gateway = await openGateway(t, { dir, cloud: cloud.port });
  const port = Number(new URL((await gateway.ready()).mqtt[0]!).port);
  const options = {
    clientId: 'm',
    version: 5,
    qos: 1,
    window: 10,
    topic: () => 'plant/mixer/m',
    payload: reading,
  } as const;
  const publisher = new Publisher(t, () => port, options);
  await until('some hundred promises', () => publisher.promised.size >= 300);
  await publisher.finish();
  const count = publisher.promised.size;
  await until('all of it to be stored', async () => (await first.status()).stored === count);
  assert.ok(cloud.stats().queued > 0, 'the cloud has no acknowledgement');
  await first.kill();
  // The acknowledgements are still on the line: they are to get lost there.
  line.reset();
  await line.set({ stall: null });

  const second = await Program.open(t, 'ingest', '--config', config);
  await until('everything to be acknowledged', () => cloud.stats().queued === 0);
  const { stored, duplicates, conflicts, holes, rows } = await second.status();
  assert.deepEqual(
    { stored, duplicates, conflicts, holes, rows },
    { stored: count, duplicates: count, conflicts: 0, holes: 0, rows: 2 * count },
  );
  assert.equal((await second.end()).code, 0, second.stderr);
  assert.equal((await gateway.end()).code, 0, gateway.stderr);
});
