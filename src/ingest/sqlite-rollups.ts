import type Database from 'better-sqlite3';
import type { Millis } from '../model/ids.js';
import {
  type BackfillPlan,
  type BackfillUnit,
  type DeviceGap,
  EXPIRE_MS_MAX,
  type Expired,
  HOUR_MS,
  hourOf,
  type Rollups,
} from './rollups.js';
import type { GroupCommit } from './sqlite-commit.js';

/** An hour of a value a second is 3,600 readings: a unit of this many holds up the ingest for some ten milliseconds. */
const UNIT_HOURS = 32;

interface Hour {
  readonly bucket: Millis;
  readonly series_id: number;
  readonly readings: number;
}

/** See rollups.ts. One connection writes at a time, so one marker per hour is enough, and no lock is needed. */
export class SqliteRollups implements Rollups {
  private readonly group: GroupCommit;
  private readonly measure: Database.Statement<[number], Omit<BackfillPlan, 'units' | 'open'>>;
  private readonly countOpen: Database.Statement<[number], { open: number }>;
  private readonly measureDevices: Database.Statement<[number], DeviceGap>;
  private readonly oldest: Database.Statement<[number, number], Hour>;
  private readonly upsert: Database.Statement<[{ bucket: number; series_id: number }]>;
  private readonly drop: Database.Statement<[{ bucket: number; series_id: number }]>;
  private readonly bounds: Database.Statement<
    [],
    { floor: number | null; oldest: number | null; marked: number | null }
  >;
  private readonly removals: Database.Statement<[number]>[];
  private readonly moveFloor: Database.Statement<[number, number]>;
  private readonly rawHorizonMs: number | undefined;
  private readonly unmark: Database.Statement<[{ bucket: number; series_id: number }]>;

  constructor(db: Database.Database, group: GroupCommit, rawHorizonMs?: number) {
    this.group = group;
    this.rawHorizonMs = rawHorizonMs;
    this.bounds = db.prepare(
      `SELECT floor, (SELECT min((SELECT min(device_ts) FROM readings WHERE series_id = series.id)) FROM series) AS oldest,
         (SELECT min(bucket) FROM dirty) AS marked FROM raw_floor`,
    );
    const ofSeries = (table: string) =>
      `DELETE FROM ${table} WHERE series_id IN (SELECT id FROM series) AND device_ts < ?`;
    this.removals = [ofSeries('readings'), ofSeries('absorbed'), 'DELETE FROM tallies WHERE hour < ?'].map((sql) =>
      db.prepare(sql),
    );
    this.moveFloor = db.prepare('UPDATE raw_floor SET floor = ?, removed = removed + ?');
    this.measure = db.prepare(
      `SELECT count(*) AS hours, count(DISTINCT series_id) AS series, min(bucket) AS "from", max(bucket) AS "to"
       FROM dirty WHERE bucket <= ?`,
    );
    this.countOpen = db.prepare('SELECT count(*) AS open FROM dirty WHERE bucket > ?');
    this.measureDevices = db.prepare(
      `SELECT asset_id AS device, min(bucket) AS "from", max(bucket) + ${HOUR_MS} AS "to",
         count(DISTINCT bucket) AS buckets, count(*) AS hours,
         sum((SELECT count(*) FROM readings AS r WHERE r.series_id = d.series_id
           AND device_ts >= bucket AND device_ts < bucket + ${HOUR_MS})) AS rows
       FROM dirty AS d JOIN series ON series.id = series_id WHERE bucket <= ? GROUP BY asset_id ORDER BY 2, 1`,
    );
    this.oldest = db.prepare(
      `SELECT bucket, series_id, (SELECT count(*) FROM readings AS r
         WHERE r.series_id = d.series_id AND device_ts >= bucket AND device_ts < bucket + ${HOUR_MS}) AS readings
       FROM dirty AS d WHERE bucket <= ? ORDER BY bucket, series_id LIMIT ?`,
    );
    const hour = `series_id = @series_id AND device_ts >= @bucket AND device_ts < @bucket + ${HOUR_MS}`;
    this.upsert = db.prepare(
      `INSERT OR REPLACE INTO rollup_1h (series_id, bucket, readings, count, sum, min, max, first, last)
       SELECT @series_id, @bucket, (SELECT count(*) FROM readings WHERE ${hour}) AS counted,
         count(*), sum(value), min(value), max(value),
         (SELECT value FROM numbers WHERE ${hour} ORDER BY device_ts LIMIT 1),
         (SELECT value FROM numbers WHERE ${hour} ORDER BY device_ts DESC LIMIT 1)
       FROM numbers WHERE ${hour} HAVING counted > 0`,
    );
    this.drop = db.prepare('DELETE FROM rollup_1h WHERE series_id = @series_id AND bucket = @bucket');
    this.unmark = db.prepare(
      `DELETE FROM dirty WHERE bucket = @bucket AND series_id = @series_id AND
         (SELECT count(*) FROM readings WHERE ${hour}) =
         ifnull((SELECT readings FROM rollup_1h WHERE series_id = @series_id AND bucket = @bucket), 0)`,
    );
  }

  async plan(now: Millis): Promise<BackfillPlan> {
    const measured = this.measure.get(now - HOUR_MS)!;
    const { open } = this.countOpen.get(now - HOUR_MS)!;
    return { ...measured, units: Math.ceil(measured.hours / UNIT_HOURS), open };
  }

  async devices(now: Millis): Promise<DeviceGap[]> {
    return this.measureDevices.all(now - HOUR_MS);
  }

  async unit(now: Millis): Promise<BackfillUnit | undefined> {
    const hours = this.oldest.all(now - HOUR_MS, UNIT_HOURS);
    const [first] = hours;
    if (!first) return undefined;
    const readings = hours.reduce((sum, hour) => sum + hour.readings, 0);
    const agreeing = await this.group.run(readings, () => {
      let agreeing = 0;
      for (const { bucket, series_id } of hours) {
        const hour = { bucket, series_id };
        if (this.upsert.run(hour).changes === 0) this.drop.run(hour);
        agreeing += this.unmark.run(hour).changes;
      }
      return agreeing;
    });
    const last = hours.at(-1) as Hour;
    const disagreeing = hours.length - agreeing;
    return { hours: hours.length, readings, from: first.bucket, to: (last.bucket + HOUR_MS) as Millis, disagreeing };
  }

  async expire(now: Millis): Promise<Expired | undefined> {
    if (this.rawHorizonMs === undefined) return undefined;
    const target = hourOf(now - this.rawHorizonMs);
    return this.group.run(1, () => {
      const { floor, oldest, marked } = this.bounds.get()!;
      const next = Math.min(target, marked ?? target, oldest === null ? target : hourOf(oldest) + EXPIRE_MS_MAX);
      if (next <= (floor ?? -Infinity)) return undefined;
      const [readings = 0] = this.removals.map((removal) => removal.run(next).changes);
      this.moveFloor.run(next, readings);
      return { readings, floor: next as Millis };
    });
  }
}
