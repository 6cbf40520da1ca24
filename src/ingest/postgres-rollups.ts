import { assert } from '../lib/assert.js';
import type { Millis } from '../model/ids.js';
import { expireRaw } from './postgres-floor.js';
import type { PostgresClient, PostgresPool } from './postgres-pool.js';
import { columnsOf } from './postgres-value.js';
import {
  type BackfillPlan,
  type BackfillUnit,
  type DeviceGap,
  type Expired,
  HOUR_MS,
  type Rollups,
} from './rollups.js';

/** An hour of a value a second is 3,600 readings: a unit of this many takes some hundred milliseconds. */
const UNIT_HOURS = 256;
/** One backfill at a time: an older computation must not overwrite a newer one. Any number that is ours alone. */
export const ROLLUP_LOCK = 4_839_201_738;

/** Markers that are read at a time, with some hundred numbers each. */
const MARKERS_MAX = 4000;

/** The markers of one bucket, together. */
export interface Marked {
  readonly bucket: Millis;
  readonly ids: readonly string[];
  readonly seriesIds: readonly number[];
}

export interface Hour {
  readonly bucket: Millis;
  readonly seriesId: number;
}

/**
 * See rollups.ts. Writers only ever add markers. A marker with a unique key would lose updates: a second writer would find
 * it there and add none, and then the backfill that had not seen the second writer's readings would delete it.
 */
export class PostgresRollups implements Rollups {
  private readonly pool: PostgresPool;
  private readonly rawHorizonMs: number | undefined;
  private readonly chunked: boolean;

  /** `chunked`: the readings are a hypertable. */
  constructor(pool: PostgresPool, rawHorizonMs?: number, chunked = false) {
    this.pool = pool;
    this.rawHorizonMs = rawHorizonMs;
    this.chunked = chunked;
  }

  async plan(now: Millis): Promise<BackfillPlan> {
    const [plan] = await this.pool.query<Omit<BackfillPlan, 'units'>>(
      `SELECT count(*) FILTER (WHERE over) AS hours, count(DISTINCT series_id) FILTER (WHERE over) AS series,
         (extract(epoch FROM min(bucket) FILTER (WHERE over)) * 1000)::bigint AS "from",
         (extract(epoch FROM max(bucket) FILTER (WHERE over)) * 1000)::bigint AS "to",
         count(*) FILTER (WHERE NOT over) AS open
       FROM (SELECT DISTINCT bucket, unnest(series_ids) AS series_id, bucket <= to_timestamp($1::bigint / 1000.0) AS over
         FROM holdfast.dirty) AS d`,
      [now - HOUR_MS],
    );
    return { ...plan!, units: Math.ceil(plan!.hours / UNIT_HOURS) };
  }

  devices(now: Millis): Promise<DeviceGap[]> {
    return this.pool.query<DeviceGap>(
      `SELECT asset_id AS device, (extract(epoch FROM min(bucket)) * 1000)::bigint AS "from",
         (extract(epoch FROM max(bucket)) * 1000)::bigint + ${HOUR_MS} AS "to",
         count(DISTINCT bucket) AS buckets, count(*) AS hours, sum(n)::bigint AS rows
       FROM (SELECT DISTINCT bucket, unnest(series_ids) AS series_id FROM holdfast.dirty
           WHERE bucket <= to_timestamp($1::bigint / 1000.0)) AS d
         JOIN holdfast.series ON series.id = series_id,
         LATERAL (SELECT count(*) AS n FROM holdfast.readings AS r WHERE r.series_id = d.series_id
           AND device_ts >= bucket AND device_ts < bucket + interval '1 hour') AS counted
       GROUP BY asset_id ORDER BY min(bucket), asset_id`,
      [now - HOUR_MS],
    );
  }

  unit(now: Millis): Promise<BackfillUnit | undefined> {
    return this.pool.transaction(async (client) => {
      await client.query('SELECT pg_advisory_xact_lock($1)', [ROLLUP_LOCK]);
      return (await work(client, now - HOUR_MS)) ?? thin(client, now - HOUR_MS);
    });
  }

  async expire(now: Millis): Promise<Expired | undefined> {
    const { rawHorizonMs } = this;
    if (rawHorizonMs === undefined) return undefined;
    return this.pool.transaction(async (client) => {
      await client.query('SELECT pg_advisory_xact_lock($1)', [ROLLUP_LOCK]);
      return expireRaw(client, now, rawHorizonMs, this.chunked);
    });
  }
}

/** The markers are read first, in a snapshot of their own: whatever they stand for is in every later one. */
async function work(client: PostgresClient, until: number): Promise<BackfillUnit | undefined> {
  const marked = await readMarked(client, 'bucket <= to_timestamp($1::bigint / 1000.0)', until);
  const touched: Marked[] = [];
  const hours: Hour[] = [];
  for (const one of marked) {
    if (hours.length >= UNIT_HOURS) break;
    touched.push(one);
    hours.push(...hoursOf(one));
  }
  const unit = hours.slice(0, UNIT_HOURS);
  const [first] = unit;
  if (!first) return undefined;
  const counted = await compute(client, unit);
  const left = hours.filter((_, n) => !counted[n]?.agrees);
  await replace(client, touched, left);
  return {
    hours: unit.length,
    readings: counted.reduce((sum, { readings }) => sum + readings, 0),
    from: first.bucket,
    to: ((unit.at(-1) as Hour).bucket + HOUR_MS) as Millis,
    disagreeing: counted.filter(({ agrees }) => !agrees).length,
  };
}

/** Every batch marks the hour that is not over: one marker is enough for all of them. */
export async function thin(client: PostgresClient, until: number): Promise<undefined> {
  for (let full = true; full; ) {
    const marked = await readMarked(client, 'bucket > to_timestamp($1::bigint / 1000.0)', until);
    const markers = marked.reduce((sum, { ids }) => sum + ids.length, 0);
    if (markers > marked.length) await replace(client, marked, marked.flatMap(hoursOf));
    full = markers === MARKERS_MAX && markers > marked.length;
  }
}

/** Computes hours anew, and says of each how many readings it has and whether a count of them agrees. */
async function compute(
  client: PostgresClient,
  hours: readonly Hour[],
): Promise<{ readings: number; agrees: boolean }[]> {
  const columns = columnsOf(
    hours,
    ({ bucket }) => bucket,
    ({ seriesId }) => seriesId,
  );
  await client.query(
    `INSERT INTO holdfast.rollup_1h (series_id, bucket, readings, count, sum, min, max, first, last)
     SELECT id, hour, h.* FROM ${HOURS}, LATERAL holdfast.hour_of(id, hour) AS h ORDER BY id, hour
     ON CONFLICT (series_id, bucket) DO UPDATE SET readings = excluded.readings, count = excluded.count,
       sum = excluded.sum, min = excluded.min, max = excluded.max, first = excluded.first, last = excluded.last`,
    columns,
  );
  const { rows } = await client.query<{ readings: number; agrees: boolean }>(
    `SELECT r.readings, r.readings = (SELECT count(*) FROM holdfast.readings AS raw
       WHERE raw.series_id = r.series_id AND device_ts >= bucket AND device_ts < bucket + interval '1 hour') AS agrees
     FROM ${HOURS} JOIN holdfast.rollup_1h AS r ON series_id = id AND bucket = hour ORDER BY n`,
    columns,
  );
  assert(rows.length === hours.length, 'every hour that was computed is there', { computed: hours.length });
  await client.query(
    `DELETE FROM holdfast.rollup_1h USING ${HOURS} WHERE series_id = id AND bucket = hour AND readings = 0`,
    columns,
  );
  return rows;
}

export const HOURS = `(SELECT to_timestamp(ms / 1000.0) AS hour, id, n
  FROM unnest($1::bigint[], $2::int[]) WITH ORDINALITY AS u(ms, id, n)) AS m`;

/** By bucket, the oldest first. */
export async function readMarked(client: PostgresClient, which: string, until: number): Promise<Marked[]> {
  const { rows } = await client.query<Marked>(
    `SELECT (extract(epoch FROM bucket) * 1000)::bigint AS bucket, array_agg(DISTINCT id)::text[] AS ids,
       array_agg(DISTINCT series_id) AS "seriesIds"
     FROM (SELECT bucket, id, series_ids FROM holdfast.dirty WHERE ${which} ORDER BY dirty.bucket, id LIMIT $2) AS d,
       unnest(series_ids) AS series_id
     GROUP BY d.bucket ORDER BY d.bucket`,
    [until, MARKERS_MAX],
  );
  return rows;
}

/** Deletes exactly these markers and leaves one per bucket for the hours that are still to be done. */
export async function replace(client: PostgresClient, marked: readonly Marked[], left: readonly Hour[]): Promise<void> {
  const ids = marked.flatMap((one) => one.ids);
  await client.query(
    `DELETE FROM holdfast.dirty WHERE bucket BETWEEN to_timestamp($2::bigint / 1000.0) AND to_timestamp($3::bigint / 1000.0)
       AND id = ANY ($1::bigint[])`,
    [ids, marked[0]?.bucket, marked.at(-1)?.bucket],
  );
  await client.query(
    `INSERT INTO holdfast.dirty (bucket, series_ids)
     SELECT hour, array_agg(id) FROM ${HOURS} GROUP BY hour`,
    columnsOf(
      left,
      ({ bucket }) => bucket,
      ({ seriesId }) => seriesId,
    ),
  );
}

export function hoursOf({ bucket, seriesIds }: Marked): Hour[] {
  return seriesIds.map((seriesId) => ({ bucket, seriesId }));
}
