import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Historian } from '../../src/ingest/historian.js';
import { backfill, hourOf } from '../../src/ingest/rollups.js';
import type { Millis } from '../../src/model/ids.js';
import { batchOf } from './batches.js';
import { reading, readingRow, T0 } from './rows.js';

const HOUR = 3_600_000;
const H0 = hourOf(T0);
const NOTHING = { stored: 0, duplicates: 0, conflicts: 0, gaps: 0, quarantined: 0, opaque: 0 };

/** What becomes of readings beyond the raw horizon, the same on every backend that removes rows. */
export function horizonCases(
  name: string,
  skip: string | false,
  open: (
    t: TestContext,
    rawHorizonMs: number,
  ) => Promise<{ historian: Historian; readings(): Promise<number>; rolled(): Promise<number> }>,
): void {
  test(`${name}: beyond the horizon readings go, rollups stay, and what comes again is kept aside once`, {
    skip,
  }, async (t) => {
    const { historian, readings, rolled } = await open(t, 10 * HOUR);
    const rows = Array.from({ length: 20 }, (_, n) =>
      readingRow(n + 1, reading('f', n, { ts: (H0 + n * HOUR) as Millis })),
    );
    await historian.ingest(batchOf(rows));
    const now = (H0 + 20 * HOUR + 1) as Millis;
    const { rollups } = historian;
    const expire = async () => {
      let removed = 0;
      for (let one = await rollups.expire(now); one; one = await rollups.expire(now)) removed += one.readings;
      return removed;
    };
    // No reading goes before its hour is rolled up.
    assert.equal(await expire(), 0);
    await backfill(rollups, () => now, new AbortController().signal);
    assert.equal(await expire(), 10);
    assert.deepEqual([await readings(), await rolled()], [10, 20]);
    assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, duplicates: 10, quarantined: 10 });
    assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, duplicates: 20 });
    await backfill(rollups, () => now, new AbortController().signal);
    assert.deepEqual([await readings(), await rolled()], [10, 20]);
  });
}
