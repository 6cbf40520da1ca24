import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { reconcileInThread } from '../../src/ingest/reconcile-thread.js';
import { SqliteHistorian } from '../../src/ingest/sqlite-historian.js';
import { Watch } from '../../src/ingest/watch.js';
import { silentLog } from '../../src/lib/log.js';
import type { Millis, Seq } from '../../src/model/ids.js';
import type { SpoolRow } from '../../src/model/row.js';
import { batchOf } from '../helpers/batches.js';
import { openSpool, reading } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const HOUR = 3_600_000;
/** The start of an hour. */
const T0 = 1_790_035_200_000;
const BEFORE = 20;
const ROWS = 240;

/** Four hours of a gateway, a reading a minute, and its tallies, from a real spool. */
async function fourHours(t: TestContext): Promise<SpoolRow[]> {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue(Array.from({ length: ROWS }, (_, n) => reading(n, T0 + n * 60_000)));
  await spool.tally(Date.now() as Millis, true);
  return spool.peek(0 as Seq, 1_000, 1 << 24);
}

/** A store that has the first twenty minutes and was then cut off for three hours, and the watch over it. */
async function afterOutage(t: TestContext, withinMs: number) {
  const rows = await fourHours(t);
  const path = join(tempDir(t), 'historian.db');
  let now = T0 + BEFORE * 60_000;
  const clock = { now: () => now as Millis, mono: () => performance.now() };
  const historian = await SqliteHistorian.open({ path, clock, futureMaxMs: HOUR });
  t.after(() => historian.close());
  await historian.ingest(batchOf(rows.slice(0, BEFORE)));
  const watch = new Watch({
    afterMs: HOUR,
    withinMs,
    ledger: () => historian.ledger(),
    reconcile: (window, signal) => reconcileInThread({ path }, window, signal),
    lookMs: 5,
    checkMs: 20,
    clock,
    log: silentLog,
  });
  t.after(() => watch.close());
  watch.start();
  const back = (minutes: number) => {
    now = T0 + minutes * 60_000;
  };
  return { rows, historian, watch, back };
}

test('an outage is reconciled by itself when the gateway has caught up, and closed when every hour is complete', async (t) => {
  const { rows, historian, watch, back } = await afterOutage(t, 10 * HOUR);
  back(200);
  await historian.ingest(batchOf(rows.slice(BEFORE, 100)));
  await until('the case', () => watch.status().outages[0]);
  assert.equal(watch.status().outages[0]?.ripe, false);
  // Everything but ten readings, which are still on their way.
  await historian.ingest(batchOf([...rows.slice(100, 150), ...rows.slice(160)]));
  const open = await until('a check', () => watch.status().outages.find(({ incomplete }) => incomplete !== null));
  assert.ok((open.incomplete ?? 0) > 0);
  await historian.ingest(batchOf(rows.slice(150, 160)));
  await until('the proof', () => watch.status().outages.length === 0);
  assert.notEqual(watch.status().lastReconciledAt, null);
});

test('an outage that stays incomplete is overdue, and is proved all the same when the rest comes', async (t) => {
  const { rows, historian, watch, back } = await afterOutage(t, HOUR);
  back(200);
  await historian.ingest(batchOf([...rows.slice(BEFORE, 150), ...rows.slice(160)]));
  await until('a check', () => watch.status().outages.find(({ incomplete }) => incomplete !== null));
  assert.equal(watch.status().outages[0]?.overdue, false);
  back(270);
  await until('the alarm', () => watch.status().outages[0]?.overdue);
  await historian.ingest(batchOf(rows.slice(150, 160)));
  await until('the proof', () => watch.status().outages.length === 0);
});
