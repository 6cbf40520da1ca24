import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { hourOf } from '../../src/ingest/rollups.js';
import { systemClock } from '../../src/lib/clock.js';
import type { Millis } from '../../src/model/ids.js';
import { batchOf } from '../helpers/batches.js';
import { openPostgres, skipPostgres as skip } from '../helpers/postgres.js';
import { gapRow, reading, readingRow } from '../helpers/rows.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

test('the shipped availability query takes no outage for a stop', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t, { clock: systemClock });
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
  const rows = await sql(readFileSync('config/oee-availability.sql', 'utf8'));
  const of = (asset: string, hour: number) => {
    const row = rows.find((row) => row.asset_id === asset && row.hour.getTime() === hour);
    return [row?.known_s, row?.unknown_s, row?.running_s, row?.availability];
  };
  assert.deepEqual(of('press', h), [3600, 0, 2700, 0.75]);
  assert.deepEqual(of('press', h + HOUR), [1800, 1800, 1800, 1]);
  assert.deepEqual(of('press', h + 2 * HOUR), [0, 3600, null, null]);
  assert.deepEqual(of('mill', h), [3600, 0, 1800, 0.5]);
});
