import { systemCodeOf } from '../lib/errors.js';
import type { Millis } from '../model/ids.js';
import { inTransaction, type PostgresClient, type PostgresPool } from './postgres-pool.js';
import {
  HOURS,
  type Hour,
  hoursOf,
  type Marked,
  PostgresRollups,
  ROLLUP_LOCK,
  readMarked,
  replace,
  thin,
} from './postgres-rollups.js';
import { columnsOf } from './postgres-value.js';
import {
  type BackfillPlan,
  type BackfillUnit,
  type DeviceGap,
  type Expired,
  HOUR_MS,
  hourOf,
  type Rollups,
} from './rollups.js';
import { refreshOptions, type Timescale } from './timescale.js';

const DAY_MS = 24 * HOUR_MS;
/** One refresh is one statement: a chunk's worth keeps it short, and what a crash undoes small. */
const SPAN_MS = DAY_MS;
/** Hours of series that are counted again per unit. */
const UNIT_HOURS = 20_000;
/** A refresh does only what lies wholly inside its window. Buckets that did not change cost nothing. */
const PAD_BEFORE = 1;
const PAD_AFTER = 2;
/** A refresh may have a whole day of a fleet to read; one that takes longer is done again in halves. */
const REFRESH_MS_MAX = 10 * 60_000;
/** For the server's answer that it has given up, which must come before we do. */
const ANSWER_MS_MAX = 10_000;
/** A canceled statement; on 2.28 a canceled refresh fails at its own cleaning up, with an invalid transaction termination. */
const TOOK_TOO_LONG: ReadonlySet<string | undefined> = new Set(['57014', '2D000']);

/**
 * Rollups as continuous aggregates, refreshed where the markers say. A unit reads markers, refreshes their hours, counts what
 * the aggregate and the readings hold per series and hour, and deletes the markers that agree; each is a statement of its own,
 * because a refresh cannot run in a transaction. A crash between them leaves markers, and a refresh that is done again
 * changes nothing. Only markers that were committed before a refresh began are deleted after it. Days follow their hours.
 */
export class TimescaleRollups implements Rollups {
  private readonly pool: PostgresPool;
  private readonly plain: PostgresRollups;
  private readonly options: string;
  private readonly refreshMsMax: number;

  constructor(
    pool: PostgresPool,
    { version }: Timescale,
    rawHorizonMs?: number,
    refreshMsMax: number = REFRESH_MS_MAX,
  ) {
    this.pool = pool;
    this.plain = new PostgresRollups(pool, rawHorizonMs, true);
    this.options = refreshOptions(version);
    this.refreshMsMax = refreshMsMax;
  }

  plan(now: Millis): Promise<BackfillPlan> {
    return this.plain.plan(now);
  }

  devices(now: Millis): Promise<DeviceGap[]> {
    return this.plain.devices(now);
  }

  expire(now: Millis): Promise<Expired | undefined> {
    return this.plain.expire(now);
  }

  unit(now: Millis): Promise<BackfillUnit | undefined> {
    return this.pool.session(async (client) => {
      await client.query('SELECT pg_advisory_lock($1)', [ROLLUP_LOCK]);
      const unit = (await this.hours(client, now)) ?? (await this.day(client, now));
      if (!unit) await inTransaction(client, () => thin(client, now - HOUR_MS));
      await client.query('SELECT pg_advisory_unlock($1)', [ROLLUP_LOCK]);
      return unit;
    });
  }

  private async hours(client: PostgresClient, now: Millis): Promise<BackfillUnit | undefined> {
    const marked = await readMarked(client, 'bucket <= to_timestamp($1::bigint / 1000.0)', now - HOUR_MS);
    const from = marked[0]?.bucket;
    if (from === undefined) return undefined;
    const taken: Marked[] = [];
    const hours: Hour[] = [];
    for (const one of marked) {
      if (one.bucket >= from + SPAN_MS || hours.length >= UNIT_HOURS) break;
      taken.push(one);
      hours.push(...hoursOf(one));
    }
    const to = (taken.at(-1)!.bucket + HOUR_MS) as Millis;
    await this.refresh(client, 'readings_1h', from, to, HOUR_MS, hourOf(now));
    const counts = await recount(client, hours);
    const left = hours.filter((_, n) => !counts[n]?.agrees);
    await inTransaction(client, async () => {
      await replace(client, taken, left);
      await client.query(
        `INSERT INTO holdfast.dirty_days SELECT DISTINCT date_bin('1 day', to_timestamp(ms / 1000.0), timestamptz 'epoch')
         FROM unnest($1::bigint[]) AS u(ms) ON CONFLICT DO NOTHING`,
        [taken.map(({ bucket }) => bucket)],
      );
    });
    const readings = counts.reduce((sum, count) => sum + count.readings, 0);
    return { hours: hours.length, readings, from, to, disagreeing: left.length };
  }

  /** The oldest day that is over and has hours that were done anew. Its marker goes when all of its series agree. */
  private async day(client: PostgresClient, now: Millis): Promise<BackfillUnit | undefined> {
    const today = (Math.floor(now / DAY_MS) * DAY_MS) as Millis;
    const { rows } = await client.query<{ day: Millis }>(
      `SELECT (extract(epoch FROM min(day)) * 1000)::bigint AS day FROM holdfast.dirty_days
       WHERE day < to_timestamp($1::bigint / 1000.0) HAVING count(*) > 0`,
      [today],
    );
    const from = rows[0]?.day;
    if (from === undefined) return undefined;
    const to = (from + DAY_MS) as Millis;
    await this.refresh(client, 'readings_1d', from, to, DAY_MS, today);
    const { rows: counted } = await client.query<{ series: number; wrong: number; readings: number }>(
      `SELECT count(*) AS series, coalesce(sum(hours), 0)::bigint AS readings,
         count(*) FILTER (WHERE hours IS DISTINCT FROM days) AS wrong
       FROM (SELECT series_id, sum(readings) AS hours FROM holdfast.readings_1h
             WHERE bucket >= to_timestamp($1::bigint / 1000.0) AND bucket < to_timestamp($2::bigint / 1000.0) GROUP BY 1) AS h
       FULL JOIN (SELECT series_id, readings AS days FROM holdfast.readings_1d
             WHERE bucket = to_timestamp($1::bigint / 1000.0)) AS d USING (series_id)`,
      [from, to],
    );
    const { series, wrong, readings } = counted[0]!;
    if (wrong === 0)
      await client.query('DELETE FROM holdfast.dirty_days WHERE day = to_timestamp($1::bigint / 1000.0)', [from]);
    return { hours: 24 * series, readings, from, to, disagreeing: wrong === 0 ? 0 : 24 * series };
  }

  /** Never into the bucket that is still open, which would freeze it, and never below the floor, where the readings are gone. */
  private async refresh(
    client: PostgresClient,
    aggregate: string,
    from: number,
    to: number,
    widthMs: number,
    open: number,
  ): Promise<void> {
    const { rows } = await client.query<{ floor: number | null }>('SELECT floor FROM holdfast.raw_floor');
    // Days are made of hours, and those stay.
    const floor = widthMs === HOUR_MS ? (rows[0]?.floor ?? -Infinity) : -Infinity;
    const start = Math.max(from - PAD_BEFORE * widthMs, floor);
    const end = Math.min(to + PAD_AFTER * widthMs, open);
    if (start >= end) return;
    const at = (ms: number) => `to_timestamp(${ms} / 1000.0)`;
    await client.query(`SET statement_timeout = ${this.refreshMsMax}`);
    try {
      await client.query({
        text: `CALL refresh_continuous_aggregate('holdfast.${aggregate}', ${at(start)}, ${at(end)}${this.options})`,
        query_timeout: this.refreshMsMax + ANSWER_MS_MAX,
      } as never);
    } catch (error) {
      const buckets = Math.round((to - from) / widthMs);
      if (!TOOK_TOO_LONG.has(systemCodeOf(error)) || buckets < 2) throw error;
      const middle = from + Math.floor(buckets / 2) * widthMs;
      await this.refresh(client, aggregate, from, middle, widthMs, open);
      await this.refresh(client, aggregate, middle, to, widthMs, open);
    }
    await client.query('RESET statement_timeout');
  }
}

/** Per hour, in one snapshot: the readings there are, and whether the aggregate has as many. */
async function recount(
  client: PostgresClient,
  hours: readonly Hour[],
): Promise<{ readings: number; agrees: boolean }[]> {
  const columns = columnsOf(
    hours,
    ({ bucket }) => bucket,
    ({ seriesId }) => seriesId,
  );
  const { rows } = await client.query<{ readings: number; agrees: boolean }>(
    `SELECT raw.readings, raw.readings = coalesce(r.readings, 0) AS agrees
     FROM ${HOURS} LEFT JOIN holdfast.readings_1h AS r ON r.series_id = id AND r.bucket = hour,
       LATERAL (SELECT count(*) AS readings FROM holdfast.readings
         WHERE series_id = id AND device_ts >= hour AND device_ts < hour + interval '1 hour') AS raw
     ORDER BY n`,
    columns,
  );
  return rows;
}
