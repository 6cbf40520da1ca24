import assert from 'node:assert/strict';
import type { Historian } from '../../src/ingest/historian.js';
import { hourOf } from '../../src/ingest/rollups.js';
import type { Millis } from '../../src/model/ids.js';
import { batchOf } from './batches.js';
import { gapRow, reading, readingRow } from './rows.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** Rows of the availability query, with the hour in milliseconds. */
export type OeeRow = Record<string, unknown> & { readonly hour: number };

/** Fills the historian, runs the shipped query and holds its figures against what happened. */
export async function checkAvailability(historian: Historian, query: () => Promise<OeeRow[]>): Promise<void> {
  // Hours that are over for the query, too, even if one begins while the test runs.
  const h = hourOf(Date.now()) - 5 * HOUR;
  let seq = 0;
  const run = (asset: string, ts: number, value: boolean) =>
    readingRow(++seq, reading('b', value, { asset, metric: 'running', ts: ts as Millis }));
  const gap = (asset: string, from: number, to: number) =>
    gapRow(++seq, asset, null, { from: from as Millis, to: to as Millis, reason: 'gateway-down' });
  await historian.ingest(
    batchOf([
      // An hour that is read throughout: three quarters running.
      ...Array.from({ length: 60 }, (_, n) => run('press', h + n * MINUTE, n < 45)),
      // Half of the next is not read, told twice with an overlap; it ran in all of the rest.
      ...Array.from({ length: 30 }, (_, n) => run('press', h + HOUR + n * MINUTE, true)),
      gap('press', h + HOUR + 30 * MINUTE, h + HOUR + 50 * MINUTE),
      gap('press', h + HOUR + 40 * MINUTE, h + 3 * HOUR),
      // A gap whose readings came after all.
      gap('mill', h, h + HOUR),
      ...Array.from({ length: 60 }, (_, n) => run('mill', h + n * MINUTE + 1, n % 2 === 0)),
    ]),
  );
  const rows = await query();
  const of = (asset: string, hour: number) => {
    const row = rows.find((row) => row.asset_id === asset && row.hour === hour);
    return [row?.known_s, row?.unknown_s, row?.running_s, row?.availability];
  };
  assert.deepEqual(of('press', h), [3600, 0, 2700, 0.75]);
  assert.deepEqual(of('press', h + HOUR), [1800, 1800, 1800, 1]);
  assert.deepEqual(of('press', h + 2 * HOUR), [0, 3600, null, null]);
  assert.deepEqual(of('mill', h), [3600, 0, 1800, 0.5]);
}
