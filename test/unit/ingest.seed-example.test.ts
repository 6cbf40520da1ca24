import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backfill } from '../../src/ingest/rollups.js';
import type { Millis } from '../../src/model/ids.js';
import { batchOf } from '../helpers/batches.js';
import { ask, openHistorian, stoppedClock } from '../helpers/historian.js';
import { reading, readingRow } from '../helpers/rows.js';

/**
 * Six hours in windows of 30 minutes: 12 windows. Four devices with a reading every 10 s are 720 readings a window for each
 * metric; 21,600 rows a window take 30 metrics per device.
 */
test('six hours that come late in twelve windows of 21,600 rows make six hourly buckets per series, all complete', async (t) => {
  const from = Date.parse('2026-07-17T02:00Z');
  const to = Date.parse('2026-07-17T08:00Z');
  const windowMs = 30 * 60_000;
  assert.equal(Math.ceil((to - from) / windowMs), 12);
  const { historian, path } = await openHistorian(t);
  let seq = 0;
  for (let start = from; start < to; start += windowMs) {
    const rows = [];
    for (let ts = start; ts < start + windowMs; ts += 10_000)
      for (let series = 0; series < 120; series++)
        rows.push(
          readingRow(
            ++seq,
            reading('f', series, { asset: `d${series % 4}`, metric: `m${series >> 2}`, ts: ts as Millis }),
          ),
        );
    assert.equal((await historian.ingest(batchOf(rows))).stored, 21_600);
  }
  assert.equal(historian.totals().stored, 259_200);
  const { hours, series, from: first, to: last } = await historian.rollups.plan(stoppedClock.now());
  assert.deepEqual([hours, series, first, last], [6 * 120, 120, from, to - 3_600_000]);
  assert.equal(await backfill(historian.rollups, stoppedClock.now, new AbortController().signal), true);
  const buckets = ask(
    path,
    'SELECT bucket, count(*) AS series, sum(readings) AS n FROM rollup_1h GROUP BY 1 ORDER BY 1',
  );
  assert.deepEqual(
    buckets,
    Array.from({ length: 6 }, (_, n) => ({ bucket: from + n * 3_600_000, series: 120, n: 43_200 })),
  );
});
