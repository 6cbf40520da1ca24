/** The order of `seq` at the far end, and what acknowledgements that get lost lead to there. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { WanProxy } from '../../src/sim/wan.js';
import { openGateway, openIngestProgram } from '../helpers/chain.js';
import { Publisher } from '../helpers/publisher.js';
import { Random } from '../helpers/random.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';
import { Witness } from '../helpers/witness.js';

test('a line that is cut in every way, and acknowledgements that get lost: first arrivals rise by seq, nothing conflicts', async (t) => {
  const seed = Number(process.env.HOLDFAST_SEED ?? Date.now() % 1_000_000);
  t.diagnostic(`HOLDFAST_SEED=${seed}`);
  const random = new Random(seed);
  const witness = new Witness();
  const dir = tempDir(t);
  const cloud = await FaultBroker.open({ port: 0, onPublish: witness.take });
  t.after(() => cloud.close());
  const line = await WanProxy.open({ to: { host: '127.0.0.1', port: cloud.port }, faults: { latencyMs: 3 } });
  t.after(() => line.close());
  const ingest = await openIngestProgram(t, dir, cloud.port);
  await until('the ingest to be connected', async () => (await ingest.status()).connected);
  const upstream = { batchRowsMax: 25, inFlightMax: 8, ackTimeout: '300ms' };
  const gateway = await openGateway(t, { dir, cloud: line.port, upstream });
  const port = Number(new URL((await gateway.ready()).mqtt[0]!).port);
  const publisher = new Publisher(t, () => port, { clientId: 'p', version: 5, qos: 1, window: 10 });

  /** Passes when the cloud has been given some new rows, so that the next fault meets a line in use. */
  const carried = (what: string) => {
    const target = witness.atCloud.size + random.int(20, 200);
    return until(`rows to arrive ${what}`, () => witness.atCloud.size >= target);
  };
  await carried('at first');
  for (const cut of ['reset', 'blackhole', 'reset'] as const) {
    await line.set({ cut });
    const promised = publisher.promised.size + 100;
    await until('promises while the line is cut', () => publisher.promised.size >= promised);
    await line.set({ cut: null });
    await carried(`after ${cut}`);
  }
  for (const direction of ['up', 'down'] as const) {
    line.cutAfter(direction, random.int(1, 2_000));
    await carried(`after a cut in the middle of a packet ${direction}`);
  }
  const swallowed = cloud.stats().acksSwallowed;
  await cloud.set({ swallowAcks: 3 });
  await until('acknowledgements to be lost', () => cloud.stats().acksSwallowed >= swallowed + 3);
  await carried('after lost acknowledgements');

  await publisher.finish();
  await until('the spool to drain', async () => (await gateway.status()).spool.rows === 0);
  const { spool } = await gateway.status();
  await until('the ingest to have everything', () => cloud.stats().queued === 0);
  const status = await ingest.status();
  assert.equal((await gateway.end()).code, 0, gateway.stderr);
  assert.equal((await ingest.end()).code, 0, ingest.stderr);

  assert.deepEqual(
    witness.arrivals,
    Array.from({ length: spool.received }, (_, i) => i + 1),
  );
  assert.deepEqual(witness.reused, []);
  assert.equal(status.opaque, spool.received);
  assert.ok(status.duplicates > 0, 'batches whose acknowledgement was lost came again');
  assert.deepEqual([status.conflicts, status.quarantined, status.holes, status.deadBatches], [0, 0, 0, 0]);
  assert.equal(status.rows, status.opaque + status.duplicates);
});
