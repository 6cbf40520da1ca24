import assert from 'node:assert/strict';
import type { Historian } from '../../src/ingest/historian.js';
import { backfill } from '../../src/ingest/rollups.js';
import type { Millis } from '../../src/model/ids.js';
import { batchOf } from './batches.js';
import { stoppedClock } from './historian.js';
import { reading, readingRow } from './rows.js';

const HOUR = 3_600_000;
const WINDOW = 30 * 60_000;

export interface Bucket {
  readonly bucket: number;
  readonly series: number;
  readonly n: number;
}

/**
 * Six hours in windows of 30 minutes: 12 windows. Four devices with a reading every 10 s are 720 readings a window for each
 * metric; 21,600 rows a window take 30 metrics per device. `buckets` gives what has been materialised.
 */
export async function seedExample(historian: Historian, buckets: () => Promise<Bucket[]>): Promise<void> {
  const from = Date.parse('2026-07-17T02:00Z');
  const to = Date.parse('2026-07-17T08:00Z');
  let seq = 0;
  for (let start = from; start < to; start += WINDOW) {
    const rows = [];
    for (let ts = start; ts < start + WINDOW; ts += 10_000)
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

  const { rollups } = historian;
  const { hours, series, from: first, to: last } = await rollups.plan(stoppedClock.now());
  assert.deepEqual([hours, series, first, last], [6 * 120, 120, from, to - HOUR]);
  const devices = await rollups.devices(stoppedClock.now());
  const gap = { from, to, buckets: 6, hours: 6 * 30, rows: 64_800 };
  assert.deepEqual(
    devices,
    Array.from({ length: 4 }, (_, n) => ({ device: `d${n}`, ...gap })),
  );
  assert.equal(Math.ceil((devices[0]!.to - devices[0]!.from) / WINDOW), 12);

  assert.equal(await backfill(rollups, stoppedClock.now, new AbortController().signal), true);
  assert.deepEqual(
    await buckets(),
    Array.from({ length: 6 }, (_, n) => ({ bucket: from + n * HOUR, series: 120, n: 43_200 })),
  );
  assert.deepEqual(await rollups.devices(stoppedClock.now()), []);
}
