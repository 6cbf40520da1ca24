import assert from 'node:assert/strict';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { backfill, hourOf } from '../../src/ingest/rollups.js';
import type { ReadingType, ReadingValue } from '../../src/model/reading.js';
import { batchOf } from '../helpers/batches.js';
import { ask, openHistorian, stoppedClock } from '../helpers/historian.js';
import { reading, readingRow, T0 } from '../helpers/rows.js';

const HOUR = 3_600_000;
const H0 = hourOf(T0);
const VIEW = 'SELECT bucket, readings, count, sum, avg, min, max, first, last FROM sensor_readings_1h ORDER BY bucket';
const never = new AbortController().signal;

const at = (seq: number, ts: number, value: ReadingValue = seq, type: ReadingType = 'f', quality = 192) =>
  readingRow(seq, reading(type, value, { ts: ts as never, quality }));

/** The view without its markers' help: what has been materialised. */
const stored = (path: string) => ask(path, 'SELECT bucket, readings, sum FROM rollup_1h ORDER BY bucket');

test('the view is exact before a backfill, and the same after it', async (t) => {
  const { historian, path } = await openHistorian(t);
  const values = [at(1, H0, 4), at(2, H0 + 1, 1), at(3, H0 + HOUR - 1, 7), at(4, H0 + HOUR, 2), at(5, H0 - 1, 9)];
  await historian.ingest(batchOf(values));
  const hour = (bucket: number, ...[readings, sum, avg, min, max, first, last]: number[]) => ({
    bucket,
    readings,
    count: readings,
    sum,
    avg,
    min,
    max,
    first,
    last,
  });
  const expected = [
    hour(H0 - HOUR, 1, 9, 9, 9, 9, 9, 9),
    hour(H0, 3, 12, 4, 1, 7, 4, 7),
    hour(H0 + HOUR, 1, 2, 2, 2, 2, 2, 2),
  ];
  assert.deepEqual(ask(path, VIEW), expected);
  assert.deepEqual(stored(path), []);
  const now = (H0 + 2 * HOUR) as never;
  assert.deepEqual(await historian.rollups.plan(now), {
    hours: 3,
    series: 1,
    units: 1,
    from: H0 - HOUR,
    to: H0 + HOUR,
    open: 0,
  });
  assert.equal(await backfill(historian.rollups, () => now, never), true);
  assert.equal(stored(path).length, 3);
  assert.deepEqual(ask(path, 'SELECT * FROM dirty'), []);
  assert.deepEqual(ask(path, VIEW), expected);
  assert.deepEqual(ask(path, 'SELECT bucket, readings, sum FROM sensor_readings_1d'), [
    { bucket: Math.floor(H0 / (24 * HOUR)) * 24 * HOUR, readings: 5, sum: 23 },
  ]);
});

test('an hour is left alone until it is over, and its view is exact meanwhile', async (t) => {
  const { historian, path } = await openHistorian(t);
  await historian.ingest(batchOf([at(1, H0, 4), at(2, H0 + HOUR, 5)]));
  const now = (H0 + 2 * HOUR - 1) as never;
  assert.deepEqual((await historian.rollups.plan(now)).open, 1);
  await backfill(historian.rollups, () => now, never);
  assert.deepEqual(stored(path), [{ bucket: H0, readings: 1, sum: 4 }]);
  assert.deepEqual(
    ask(path, VIEW).map((row) => row.sum),
    [4, 5],
  );
});

test('a reading that comes late is in the view at once and in the rollup after the next backfill', async (t) => {
  const { historian, path } = await openHistorian(t);
  const run = () => backfill(historian.rollups, () => (H0 + 9 * HOUR) as never, never);
  await historian.ingest(batchOf([at(1, H0, 4), at(3, H0 + 5 * HOUR, 5)]));
  await run();
  await historian.ingest(batchOf([at(2, H0 + 1, 6)]));
  assert.equal(stored(path)[0]?.sum, 4);
  assert.equal(ask(path, VIEW)[0]?.sum, 10);
  const { hours, from } = await historian.rollups.plan((H0 + 9 * HOUR) as never);
  assert.deepEqual([hours, from], [1, H0]);
  await run();
  assert.deepEqual(
    stored(path).map((row) => row.sum),
    [10, 5],
  );
});

test('what comes again marks nothing', async (t) => {
  const { historian, path } = await openHistorian(t);
  const batch = batchOf([at(1, H0, 4), at(2, H0 + 1, 5)]);
  await historian.ingest(batch);
  await backfill(historian.rollups, () => (H0 + 9 * HOUR) as never, never);
  await historian.ingest(batch);
  await historian.ingest(batchOf([at(1, H0, 4), at(2, H0 + 1, 6)], 'line-1', 'e2'));
  assert.deepEqual(ask(path, 'SELECT * FROM dirty'), []);
});

test('statistics are over finite numbers that are not bad, the count of readings is over all', async (t) => {
  const { historian, path } = await openHistorian(t);
  const mixed = [
    at(1, H0 + 1, 2.5),
    at(2, H0 + 2, Number.NaN),
    at(3, H0 + 3, Number.POSITIVE_INFINITY),
    at(4, H0 + 4, null, 'f', 0),
    at(5, H0 + 5, 100, 'f', 0),
    at(6, H0 + 6, 'open', 's'),
    at(7, H0 + 7, true, 'b'),
    at(8, H0 + 8, 2n ** 64n - 1n, 'i'),
    at(9, H0 + 9, 3, 'i', 64),
    at(10, H0 + 10, 'NaN', 's'),
  ];
  await historian.ingest(batchOf(mixed));
  const expected = [
    { bucket: H0, readings: 10, count: 4, sum: 2 ** 64, avg: 2 ** 62, min: 1, max: 2 ** 64, first: 2.5, last: 3 },
  ];
  assert.deepEqual(ask(path, VIEW), expected);
  await backfill(historian.rollups, () => (H0 + 9 * HOUR) as never, never);
  assert.equal(stored(path).length, 1);
  assert.deepEqual(ask(path, VIEW), expected);
});

test('a unit is bounded and the oldest hours come first', async (t) => {
  const { historian, path } = await openHistorian(t);
  const rows = Array.from({ length: 100 }, (_, n) => at(n + 1, H0 + (99 - n) * HOUR));
  await historian.ingest(batchOf(rows.slice(0, 24)));
  const clock = { ...stoppedClock, now: () => (H0 + 200 * HOUR) as never };
  const { historian: later } = await openHistorian(t, { path, clock });
  await later.ingest(batchOf(rows));
  const units: number[][] = [];
  await backfill(later.rollups, clock.now, never, ({ hours, from, to }) => units.push([hours, from, to]));
  assert.deepEqual(units, [
    [32, H0, H0 + 32 * HOUR],
    [32, H0 + 32 * HOUR, H0 + 64 * HOUR],
    [32, H0 + 64 * HOUR, H0 + 96 * HOUR],
    [4, H0 + 96 * HOUR, H0 + 100 * HOUR],
  ]);
});

test('a marker whose hour does not count up stays, and the backfill ends all the same', async (t) => {
  const { historian, path } = await openHistorian(t);
  await historian.ingest(batchOf([at(1, H0, 4)]));
  const db = new Database(path);
  t.after(() => db.close());
  db.exec(`CREATE TRIGGER wrong AFTER INSERT ON rollup_1h BEGIN UPDATE rollup_1h SET readings = readings + 1; END`);
  assert.equal(await backfill(historian.rollups, () => (H0 + 9 * HOUR) as never, never), false);
  assert.equal(ask(path, 'SELECT * FROM dirty').length, 1);
  assert.equal(ask(path, VIEW)[0]?.readings, 1);
});

test('a file from before the rollups gets markers for all that it holds', async (t) => {
  const { historian, path } = await openHistorian(t);
  await historian.ingest(batchOf([at(1, H0, 4), at(2, -1, 5)]));
  await historian.close();
  const db = new Database(path);
  for (const view of [
    'gaps_status',
    'silences',
    'sensor_readings_1d',
    'sensor_readings_1h',
    'dirty_1h',
    'numbers',
    'sensor_readings',
    'readings_view',
  ])
    db.exec(`DROP VIEW ${view}`);
  db.exec(
    'DROP TABLE raw_floor; DROP TABLE absorbed; DROP TABLE dirty; DROP TABLE rollup_1h; DROP TABLE tallies; DROP TABLE jumps; ALTER TABLE series DROP COLUMN duplicates; ALTER TABLE series DROP COLUMN unit; PRAGMA user_version = 1',
  );
  db.exec(`CREATE VIEW readings_view AS SELECT asset_id, metric_name, device_ts, value, quality
    FROM readings JOIN series ON series.id = readings.series_id`);
  db.close();
  const { historian: again } = await openHistorian(t, { path });
  await backfill(again.rollups, () => (H0 + 9 * HOUR) as never, never);
  assert.deepEqual(
    stored(path).map(({ bucket, sum }) => [bucket, sum]),
    [
      [-HOUR, 5],
      [H0, 4],
    ],
  );
});
