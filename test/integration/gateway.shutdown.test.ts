/** How a gateway ends: in order, within its budget whatever the cloud does, and with everything in one file. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { SimulatedPlc } from '../../src/sim/plc.js';
import {
  gatewayConfig,
  historianFile,
  lineReader,
  openGateway,
  openIngestProgram,
  spoolFile,
} from '../helpers/chain.js';
import { ask } from '../helpers/historian.js';
import { Program } from '../helpers/program.js';
import { Publisher } from '../helpers/publisher.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';
import { Witness } from '../helpers/witness.js';

/** What service managers and container runtimes grant by default before they kill. */
const BUDGET_MS = 10_000;

test('what was read and published until the end is at the cloud when the process is gone', async (t) => {
  const dir = tempDir(t);
  const plc = await SimulatedPlc.open({ port: 0 });
  t.after(() => plc.close());
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const ingest = await openIngestProgram(t, dir, cloud.port);
  const readers = [lineReader(plc.port)];
  // The linger time is far longer than the end may take: only an end that drains sends the rest.
  const gateway = await openGateway(t, { dir, cloud: cloud.port, readers, upstream: { linger: '1m' } });
  const publisher = await publisherOf(t, gateway);
  assert.deepEqual(await gateway.end(), { code: 0, signal: null }, gateway.stderr);

  assertOneFile(dir);
  const [state] = ask<{ rows: number; received: number; acknowledged: number }>(
    spoolFile(dir),
    'SELECT * FROM spool_state',
  );
  assert.deepEqual([state!.rows, state!.received], [0, state!.acknowledged]);
  await until('the cloud to hand over everything', () => cloud.stats().queued === 0);
  const { rows, stored, holes } = await ingest.status();
  assert.deepEqual([rows, holes], [state!.received, 0]);
  // Every value that the PLC handed out was kept, those of the last poll too.
  assert.equal(stored, plc.served().readings);
  const kept = new Set(
    ask<{ payload: Buffer }>(historianFile(dir), 'SELECT payload FROM opaque').map(({ payload }) => payload.toString()),
  );
  assert.deepEqual(
    [...publisher.promised].filter((n) => !kept.has(publisher.payload(n))),
    [],
  );
});

test('the cloud is a black hole and publishes are on their way: exit 0 within the budget, every promise in the file', async (t) => {
  const dir = tempDir(t);
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const upstream = { onNoSubscribers: 'accept', ackTimeout: '1m', connectTimeout: '1m' };
  const gateway = await openGateway(t, { dir, cloud: cloud.port, upstream });
  await until('the upstream', async () => (await gateway.status()).upstream.state === 'online');
  await cloud.set({ blackHole: true });
  const publisher = await publisherOf(t, gateway);

  assert.deepEqual(await gateway.end(BUDGET_MS), { code: 0, signal: null }, gateway.stderr);
  assertOneFile(dir);
  const witness = new Witness();
  const { rows, counted } = witness.readSpool(spoolFile(dir));
  assert.equal(rows, counted);
  const copies = witness.copies();
  assert.deepEqual(
    [...publisher.promised].filter((n) => copies.get(publisher.payload(n)) !== 1),
    [],
  );
});

for (const signals of [1, 2])
  test(`the cloud is slow to acknowledge: after ${signals} SIGTERM it ${signals === 1 ? 'waits for it' : 'ends at once, and keeps the rows'}`, async (t) => {
    const dir = tempDir(t);
    // Slower than a second signal comes, faster than the budget for the rest of the spool.
    const cloud = await FaultBroker.open({ port: 0, faults: { ackDelayMs: 1_500 } });
    t.after(() => cloud.close());
    const upstream = { onNoSubscribers: 'accept', ackTimeout: '1m', linger: '1m' };
    const gateway = await openGateway(t, { dir, cloud: cloud.port, upstream });
    await until('the upstream', async () => (await gateway.status()).upstream.state === 'online');
    const publisher = await publisherOf(t, gateway, 10);
    await publisher.finish();
    const { publishes } = cloud.stats();
    gateway.signal('SIGTERM');
    await until('the rest to be on its way', () => cloud.stats().publishes > publishes);
    if (signals === 2) gateway.signal('SIGTERM');
    assert.deepEqual(await gateway.endsByItself(), { code: 0, signal: null }, gateway.stderr);

    assertOneFile(dir);
    const { rows, received, acknowledged } = new Witness().readSpool(spoolFile(dir));
    assert.deepEqual([rows, acknowledged], signals === 1 ? [0, received] : [received, 0]);
  });

test('the time in which the gateway was down is a gap of every asset, also when starts fail in between', async (t) => {
  const dir = tempDir(t);
  const plc = await SimulatedPlc.open({ port: 0 });
  t.after(() => plc.close());
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const ingest = await openIngestProgram(t, dir, cloud.port);
  const parts = { dir, cloud: cloud.port, readers: [lineReader(plc.port)] };
  const gateway = await openGateway(t, parts);
  await until('readings', async () => (await ingest.status()).stored > 100);
  assert.equal((await gateway.end()).code, 0, gateway.stderr);
  const downSince = Date.now();
  await until('the last ones to be stored', () => cloud.stats().queued === 0);
  const newest = 'SELECT max(device_ts) AS ts FROM readings';
  const [last] = ask<{ ts: number }>(historianFile(dir), newest);

  // A failed start is no sign of life.
  const taken = createServer().listen(0, '127.0.0.1');
  t.after(() => taken.close());
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  await until('more than a second to pass', () => Date.now() - downSince > 1_200);
  const failed = new Program(t, ['gateway', '--config', gatewayConfig({ ...parts, mqtt: port })]);
  assert.equal((await failed.endsByItself()).code, 69, failed.stderr);
  const upSince = Date.now();
  const again = await openGateway(t, parts);
  const gaps = await until('the gaps', () => {
    const rows = ask<{ asset_id: string; from_ts: number; to_ts: number; reason: string }>(
      historianFile(dir),
      // A machine that is busy leaves out polls before and after: these are gaps of their own, and not what is asked.
      "SELECT asset_id, from_ts, to_ts, reason FROM gaps WHERE reason <> 'polls-skipped' ORDER BY asset_id",
    );
    return rows.length >= 4 && rows;
  });
  assert.deepEqual(
    gaps.map(({ asset_id, reason }) => `${asset_id} ${reason}`),
    ['capper', 'filler', 'labeler', 'palletizer'].map((asset) => `${asset} gateway-down`),
  );
  for (const { from_ts, to_ts } of gaps) {
    assert.ok(from_ts >= last!.ts && from_ts <= downSince, `from ${from_ts}, down since ${downSince}`);
    assert.ok(to_ts >= upSince, `to ${to_ts}, up since ${upSince}`);
  }
  assert.equal((await again.end()).code, 0, again.stderr);
});

async function publisherOf(t: TestContext, gateway: Program, count = 200): Promise<Publisher> {
  const port = Number(new URL((await gateway.ready()).mqtt[0]!).port);
  const publisher = new Publisher(t, () => port, { clientId: 'p', version: 5, qos: 2, window: 50 });
  await until('promises', () => publisher.promised.size >= count);
  return publisher;
}

function assertOneFile(dir: string): void {
  assert.ok(existsSync(spoolFile(dir)));
  for (const suffix of ['-wal', '-shm', '-journal']) assert.ok(!existsSync(spoolFile(dir) + suffix), suffix);
}
