import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backfill, hourOf } from '../../src/ingest/rollups.js';
import type { Millis } from '../../src/model/ids.js';
import { batchOf } from '../helpers/batches.js';
import { stoppedClock } from '../helpers/historian.js';
import { openPostgres } from '../helpers/postgres.js';
import { Random } from '../helpers/random.js';
import { reading, readingRow, T0 } from '../helpers/rows.js';
import { createExtension, skipUnless, timescaleDatabase } from '../helpers/timescale.js';

const skip = skipUnless.timescale;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const D0 = Math.floor(T0 / DAY) * DAY - 10 * DAY;
const never = new AbortController().signal;

const at = (seq: number, ts: number, value = seq, metric = 'm0') =>
  readingRow(seq, reading('f', value, { ts: ts as never, metric }));

/** Hours and days of which the table or view says something else than the readings do. */
const wrong = (table: string, width: '1 hour' | '1 day', id: string) => `
  SELECT count(*) AS wrong FROM (
    SELECT series_id, date_bin('${width}', device_ts, 'epoch'::timestamptz) AS bucket, count(*) AS readings,
      sum(number) AS sum, min(number) AS min, max(number) AS max FROM holdfast.readings GROUP BY 1, 2) AS raw
  FULL JOIN (SELECT ${id} AS series_id, v.* FROM ${table} AS v ${
    id === 'series.id' ? 'JOIN holdfast.series ON asset_id = device_id AND metric_name = metric_type' : ''
  }) AS made USING (series_id, bucket)
  WHERE (raw.readings, raw.sum, raw.min, raw.max) IS DISTINCT FROM (made.readings, made.sum, made.min, made.max)`;
const VIEWS = [
  wrong('holdfast.sensor_readings_1h', '1 hour', 'series.id'),
  wrong('holdfast.sensor_readings_1d', '1 day', 'series.id'),
];
const AGGREGATES = [
  wrong('(SELECT * FROM holdfast.readings_1h)', '1 hour', 'v.series_id'),
  wrong('(SELECT * FROM holdfast.readings_1d)', '1 day', 'v.series_id'),
].map((sql) => sql.replace(/SELECT v\.series_id AS series_id, v\.\*/, 'SELECT v.*'));

test('hours and days become continuous aggregates, exact in the views before, between and after', {
  skip,
}, async (t) => {
  const { historian, sql } = await openPostgres(t, { url: await timescaleDatabase(t) });
  const random = new Random(11);
  const check = async (queries: string[]) => {
    for (const query of queries) assert.deepEqual(await sql(query), [{ wrong: 0 }], query);
  };
  const later = () => stoppedClock.now();
  let seq = 0;
  for (let round = 0; round < 4; round++) {
    const rows = Array.from({ length: 300 }, () => {
      seq++;
      return at(seq, D0 + random.int(0, 4 * 86_400) * 1000, seq, `m${random.int(0, 3)}`);
    });
    await historian.ingest(batchOf(rows));
    // On the very start of hours, which some versions leave out.
    await historian.ingest(batchOf(Array.from({ length: 31 }, (_, n) => at(++seq, D0 + (n + round) * HOUR))));
    await check(VIEWS);
    await historian.rollups.unit(later());
    await check(VIEWS);
    assert.equal(await backfill(historian.rollups, later, never), true);
    await check([...VIEWS, ...AGGREGATES]);
    assert.deepEqual(await sql('SELECT * FROM holdfast.dirty'), []);
    assert.deepEqual(await sql('SELECT * FROM holdfast.dirty_days'), []);
  }
});

test('an hour and a day that are not over stay out of the aggregates, and are in the views', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t, { url: await timescaleDatabase(t) });
  const now = (D0 + DAY + 5 * HOUR + 1000) as Millis;
  await historian.ingest(batchOf([at(1, D0 + HOUR), at(2, D0 + DAY + HOUR), at(3, D0 + DAY + 5 * HOUR)]));
  assert.equal(await backfill(historian.rollups, () => now, never), true);
  assert.deepEqual(await sql('SELECT readings FROM holdfast.readings_1h'), [{ readings: 1 }, { readings: 1 }]);
  assert.deepEqual(await sql('SELECT readings FROM holdfast.readings_1d'), [{ readings: '1' }]);
  for (const query of VIEWS) assert.deepEqual(await sql(query), [{ wrong: 0 }]);
  await historian.ingest(batchOf([at(4, D0 + DAY + 6 * HOUR)]));
  assert.equal(await backfill(historian.rollups, () => (D0 + 2 * DAY) as Millis, never), true);
  assert.deepEqual(await sql('SELECT readings FROM holdfast.readings_1d ORDER BY bucket'), [
    { readings: '1' },
    { readings: '3' },
  ]);
});

test('late readings into a compressed chunk are stored, rolled up, and recognised when they come again', {
  skip,
}, async (t) => {
  const { historian, sql } = await openPostgres(t, { url: await timescaleDatabase(t) });
  const rows = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => at(from + n, D0 + (from + n) * 10_000));
  await historian.ingest(batchOf(rows(1, 1000)));
  await sql("SELECT compress_chunk(c) FROM show_chunks('holdfast.readings') AS c");
  await backfill(historian.rollups, stoppedClock.now, never);
  const outcome = await historian.ingest(batchOf(rows(900, 2000)));
  assert.deepEqual([outcome.stored, outcome.duplicates], [1000, 100]);
  await backfill(historian.rollups, stoppedClock.now, never);
  for (const query of [...VIEWS, ...AGGREGATES]) assert.deepEqual(await sql(query), [{ wrong: 0 }]);
});

test('two refreshers beside two writers leave nothing wrong', { skip }, async (t) => {
  const url = await timescaleDatabase(t);
  const { historian: one, sql } = await openPostgres(t, { url });
  const { historian: two } = await openPostgres(t, { url });
  const random = new Random(7);
  const write = async (historian: typeof one, gateway: string) => {
    for (let batch = 0; batch < 25; batch++)
      await historian.ingest(
        batchOf(
          Array.from({ length: 100 }, (_, n) =>
            at(batch * 100 + n + 1, D0 + random.int(0, 12 * 3600) * 1000, n, `m${random.int(0, 3)}`),
          ),
          gateway,
        ),
      );
  };
  let writing = true;
  const refresh = async ({ rollups }: typeof one) => {
    while (writing) await rollups.unit(stoppedClock.now());
  };
  const refreshing = [refresh(one), refresh(two)];
  await Promise.all([write(one, 'a'), write(two, 'b')]);
  writing = false;
  await Promise.all(refreshing);
  await backfill(one.rollups, stoppedClock.now, never);
  for (const query of [...VIEWS, ...AGGREGATES]) assert.deepEqual(await sql(query), [{ wrong: 0 }]);
});

test('readings beyond the horizon go as chunks, their aggregates stay, and what comes again is kept aside', {
  skip,
}, async (t) => {
  const url = await timescaleDatabase(t);
  const { historian, sql } = await openPostgres(t, { url, rawHorizonMs: 12 * DAY });
  const batch = batchOf(Array.from({ length: 96 }, (_, n) => at(n + 1, D0 + n * HOUR)));
  await historian.ingest(batch);
  const now = (D0 + 14 * DAY + HOUR) as Millis;
  // Hours that are marked keep their readings.
  assert.deepEqual(await historian.rollups.expire(now), { readings: 0, floor: D0 });
  await backfill(historian.rollups, () => now, never);
  const all = 'SELECT sum(readings)::int AS n FROM holdfast.sensor_readings_1d';
  assert.deepEqual(await historian.rollups.expire(now), { readings: 48, floor: D0 + 2 * DAY });
  assert.equal(await historian.rollups.expire(now), undefined);
  assert.deepEqual(await sql('SELECT count(*) AS n FROM holdfast.readings'), [{ n: 48 }]);
  const { stored, duplicates, quarantined } = await historian.ingest(batch);
  assert.deepEqual([stored, duplicates, quarantined], [0, 48, 48]);
  assert.deepEqual(await sql("SELECT count(*) AS n FROM holdfast.quarantine WHERE reason = 'too-old'"), [{ n: 48 }]);
  // A late reading right at the floor refreshes its own hour and none below.
  await historian.ingest(batchOf([at(1000, D0 + 2 * DAY + 1)]));
  await backfill(historian.rollups, () => now, never);
  assert.deepEqual(await sql(all), [{ n: 97 }]);
  assert.deepEqual(await sql('SELECT sum(readings)::int AS n FROM holdfast.sensor_readings_1h'), [{ n: 97 }]);
});

test('under the Apache licence the rollups are our own, on a hypertable', {
  skip: skipUnless.apache,
}, async (t) => {
  const { historian, sql } = await openPostgres(t, {
    url: await timescaleDatabase(t),
    rawHorizonMs: 12 * DAY,
  });
  await historian.ingest(batchOf([at(1, D0), at(2, D0 + DAY)]));
  const now = (D0 + 13 * DAY + HOUR) as Millis;
  await backfill(historian.rollups, () => now, never);
  assert.equal((await sql('SELECT * FROM holdfast.rollup_1h')).length, 2);
  assert.deepEqual(await sql("SELECT to_regclass('holdfast.readings_1h') AS found"), [{ found: null }]);
  assert.deepEqual(await historian.rollups.expire(now), { readings: 1, floor: D0 + DAY });
  assert.deepEqual(await sql('SELECT count(*) AS n FROM holdfast.sensor_readings_1h'), [{ n: 2 }]);
});

test('a database that had rollups of its own changes over without losing an hour', { skip }, async (t) => {
  const url = await timescaleDatabase(t, false);
  const { historian, sql } = await openPostgres(t, { url });
  await historian.ingest(batchOf(Array.from({ length: 50 }, (_, n) => at(n + 1, D0 + n * HOUR))));
  await backfill(historian.rollups, stoppedClock.now, never);
  await historian.close();
  await createExtension(url);
  const { historian: again } = await openPostgres(t, { url });
  for (const query of VIEWS) assert.deepEqual(await sql(query), [{ wrong: 0 }]);
  assert.equal((await again.rollups.plan(stoppedClock.now())).hours, 50);
  await backfill(again.rollups, stoppedClock.now, never);
  for (const query of [...VIEWS, ...AGGREGATES]) assert.deepEqual(await sql(query), [{ wrong: 0 }]);
  assert.equal(hourOf(D0), D0);
});
