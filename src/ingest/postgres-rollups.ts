import type { Millis } from '../model/ids.js';
import type { PostgresClient, PostgresPool } from './postgres-pool.js';
import { type BackfillPlan, type BackfillUnit, HOUR_MS, type Rollups } from './rollups.js';

/** An hour of a value a second is 3,600 readings: a unit of this many takes some hundred milliseconds. */
const UNIT_HOURS = 256;
/** One backfill at a time: an older computation must not overwrite a newer one. Any number that is ours alone. */
const ROLLUP_LOCK = 4_839_201_738;

/**
 * See rollups.ts. Writers only ever add markers. A marker with a unique key would lose updates: a second writer would find
 * it there and add none, and then the backfill that had not seen the second writer's readings would delete it.
 */
export class PostgresRollups implements Rollups {
  private readonly pool: PostgresPool;

  constructor(pool: PostgresPool) {
    this.pool = pool;
  }

  async plan(now: Millis): Promise<BackfillPlan> {
    const [plan] = await this.pool.query<Omit<BackfillPlan, 'units'>>(
      `SELECT count(*) FILTER (WHERE over) AS hours, count(DISTINCT series_id) FILTER (WHERE over) AS series,
         (extract(epoch FROM min(bucket) FILTER (WHERE over)) * 1000)::bigint AS "from",
         (extract(epoch FROM max(bucket) FILTER (WHERE over)) * 1000)::bigint AS "to",
         count(*) FILTER (WHERE NOT over) AS open
       FROM (SELECT DISTINCT bucket, series_id, bucket <= to_timestamp($1::bigint / 1000.0) AS over FROM holdfast.dirty) AS d`,
      [now - HOUR_MS],
    );
    return { ...plan!, units: Math.ceil(plan!.hours / UNIT_HOURS) };
  }

  unit(now: Millis): Promise<BackfillUnit | undefined> {
    return this.pool.transaction(async (client) => {
      await client.query('SELECT pg_advisory_xact_lock($1)', [ROLLUP_LOCK]);
      return (await work(client, now - HOUR_MS)) ?? thin(client, now - HOUR_MS);
    });
  }
}

/** The markers are read first, in a snapshot of their own: whatever they stand for is in every later one. */
async function work(client: PostgresClient, until: number): Promise<BackfillUnit | undefined> {
  const { rows: marked } = await client.query(
    `SELECT bucket, series_id, array_agg(id)::text[] AS ids FROM holdfast.dirty
     WHERE bucket <= to_timestamp($1::bigint / 1000.0) GROUP BY bucket, series_id ORDER BY bucket, series_id LIMIT $2`,
    [until, UNIT_HOURS],
  );
  if (marked.length === 0) return undefined;
  const hours = [marked.map(({ bucket }) => bucket.toISOString()), marked.map(({ series_id }) => series_id)];
  await client.query(
    `INSERT INTO holdfast.rollup_1h (series_id, bucket, readings, count, sum, min, max, first, last)
     SELECT id, hour, h.* FROM unnest($1::timestamptz[], $2::int[]) AS m(hour, id), LATERAL holdfast.hour_of(id, hour) AS h
     ORDER BY id, hour
     ON CONFLICT (series_id, bucket) DO UPDATE SET readings = excluded.readings, count = excluded.count,
       sum = excluded.sum, min = excluded.min, max = excluded.max, first = excluded.first, last = excluded.last`,
    hours,
  );
  const { rows: counted } = await client.query<{ readings: number; agrees: boolean }>(
    `SELECT r.readings, r.readings = (SELECT count(*) FROM holdfast.readings AS raw
       WHERE raw.series_id = r.series_id AND device_ts >= bucket AND device_ts < bucket + interval '1 hour') AS agrees
     FROM unnest($1::timestamptz[], $2::int[]) WITH ORDINALITY AS m(hour, id, n)
     JOIN holdfast.rollup_1h AS r ON series_id = id AND bucket = hour ORDER BY n`,
    hours,
  );
  const done = marked.filter((_, n) => counted[n]?.agrees);
  const flat = done.flatMap(({ bucket, series_id, ids }) =>
    (ids as string[]).map((id) => [bucket.toISOString(), series_id, id]),
  );
  await client.query(
    `DELETE FROM holdfast.dirty AS d USING unnest($1::timestamptz[], $2::int[], $3::bigint[]) AS m(bucket, series_id, id)
     WHERE d.bucket = m.bucket AND d.series_id = m.series_id AND d.id = m.id`,
    [0, 1, 2].map((column) => flat.map((marker) => marker[column])),
  );
  await client.query(
    `DELETE FROM holdfast.rollup_1h USING unnest($1::timestamptz[], $2::int[]) AS m(hour, id)
     WHERE series_id = id AND bucket = hour AND readings = 0`,
    hours,
  );
  return {
    hours: marked.length,
    readings: counted.reduce((sum, { readings }) => sum + readings, 0),
    from: marked[0]?.bucket.getTime() as Millis,
    to: (marked.at(-1)?.bucket.getTime() + HOUR_MS) as Millis,
    disagreeing: marked.length - done.length,
  };
}

/** Every batch marks the hour that is not over: one marker each of those says the same. Holds the lock of the backfill. */
async function thin(client: PostgresClient, until: number): Promise<undefined> {
  await client.query(
    `WITH newest AS (SELECT bucket, series_id, max(id) AS id FROM holdfast.dirty
       WHERE bucket > to_timestamp($1::bigint / 1000.0) GROUP BY bucket, series_id HAVING count(*) > 1)
     DELETE FROM holdfast.dirty AS d USING newest AS n
     WHERE d.bucket = n.bucket AND d.series_id = n.series_id AND d.id < n.id`,
    [until],
  );
}
