import type Database from 'better-sqlite3';
import { HoldfastError } from '../lib/errors.js';
import { SQLITE_GAP_VIEWS } from './gap-views.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** The start of the hour, for times before 1970 too. */
const HOUR_OF_TS = `device_ts - ((device_ts % ${HOUR_MS} + ${HOUR_MS}) % ${HOUR_MS})`;

/** Of the table, what is in the marked hour `d`. */
const hourOf = (table: string) =>
  `FROM ${table} AS r WHERE r.series_id = d.series_id AND device_ts >= d.bucket AND device_ts < d.bucket + ${HOUR_MS}`;

/**
 * One entry per schema version; `user_version` counts those applied. Never change an entry that has been released.
 *
 * `value` has no column type, because a series may change its type: floats are REAL, integers and booleans INTEGER, text
 * and JSON TEXT, bytes BLOB. What SQLite cannot hold as such is TEXT beside a type that has no text of its own: NaN
 * (SQLite turns it into NULL) as 'NaN' of type `f`, integers above 2⁶³−1 in digits of type `i`.
 *
 * `sensor_readings_1h` and `_1d` (UTC) are exact at all times: hours that have a dirty marker are computed from the readings.
 * Their statistics are over the finite numbers that are not of bad quality; `readings` counts all.
 */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE sources (
    id INTEGER PRIMARY KEY, gateway TEXT NOT NULL, epoch TEXT NOT NULL,
    last_batch_at INTEGER NOT NULL, newest_ts INTEGER,
    UNIQUE (gateway, epoch)
  ) STRICT;
  CREATE TABLE series (
    id INTEGER PRIMARY KEY, asset_id TEXT NOT NULL, metric_name TEXT NOT NULL, type TEXT NOT NULL, topic TEXT NOT NULL,
    UNIQUE (asset_id, metric_name)
  ) STRICT;
  CREATE TABLE readings (
    series_id INTEGER NOT NULL, device_ts INTEGER NOT NULL, type TEXT NOT NULL, value ANY, quality INTEGER NOT NULL,
    source_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (series_id, device_ts)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE conflicts (
    series_id INTEGER NOT NULL, device_ts INTEGER NOT NULL, source_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    type TEXT NOT NULL, value ANY, quality INTEGER NOT NULL, received_at INTEGER NOT NULL,
    PRIMARY KEY (series_id, device_ts, source_id, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE gaps (
    source_id INTEGER NOT NULL, seq INTEGER NOT NULL, asset_id TEXT NOT NULL, metric_name TEXT,
    from_ts INTEGER NOT NULL, to_ts INTEGER NOT NULL, count INTEGER, reason TEXT NOT NULL, detail TEXT,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (source_id, seq)
  ) STRICT;
  CREATE INDEX gaps_of_asset ON gaps (asset_id, from_ts);
  CREATE TABLE opaque (
    source_id INTEGER NOT NULL, seq INTEGER NOT NULL, topic TEXT NOT NULL, ts INTEGER NOT NULL,
    retain INTEGER NOT NULL, payload BLOB NOT NULL, received_at INTEGER NOT NULL,
    PRIMARY KEY (source_id, seq)
  ) STRICT;
  CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, seq INTEGER NOT NULL, reason TEXT NOT NULL, topic TEXT NOT NULL,
    asset_id TEXT, metric_name TEXT, ts INTEGER NOT NULL, type TEXT NOT NULL, value ANY, quality INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    UNIQUE (source_id, seq, reason, topic, ts)
  ) STRICT;
  CREATE TABLE dead_batches (
    id INTEGER PRIMARY KEY, topic TEXT NOT NULL, sha256 BLOB NOT NULL, code TEXT NOT NULL, reason TEXT NOT NULL,
    bytes BLOB NOT NULL, received_at INTEGER NOT NULL,
    UNIQUE (sha256, topic)
  ) STRICT;
  CREATE TABLE ledger (
    source_id INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    PRIMARY KEY (source_id, first)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE lost (
    source_id INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (source_id, first, last, reason)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    batches INTEGER NOT NULL DEFAULT 0, rows INTEGER NOT NULL DEFAULT 0, stored INTEGER NOT NULL DEFAULT 0,
    duplicates INTEGER NOT NULL DEFAULT 0, conflicts INTEGER NOT NULL DEFAULT 0, gaps INTEGER NOT NULL DEFAULT 0,
    quarantined INTEGER NOT NULL DEFAULT 0, opaque INTEGER NOT NULL DEFAULT 0, dead_batches INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  INSERT INTO totals (id) VALUES (1);
  CREATE VIEW readings_view AS
    SELECT asset_id, metric_name, device_ts, value, quality
    FROM readings JOIN series ON series.id = readings.series_id;
  `,
  `
  CREATE TABLE absorbed (
    series_id INTEGER NOT NULL, device_ts INTEGER NOT NULL, source_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (series_id, device_ts, source_id, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE tallies (
    hour INTEGER NOT NULL, asset_id TEXT NOT NULL, metric_name TEXT NOT NULL, source_id INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, checksum INTEGER NOT NULL,
    up_to INTEGER NOT NULL,
    PRIMARY KEY (hour, asset_id, metric_name, source_id, first)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE jumps (
    source_id INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, noticed_at INTEGER NOT NULL,
    PRIMARY KEY (source_id, first)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE dirty (
    bucket INTEGER NOT NULL, series_id INTEGER NOT NULL,
    PRIMARY KEY (bucket, series_id)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO dirty SELECT DISTINCT ${HOUR_OF_TS}, series_id FROM readings;
  CREATE TABLE rollup_1h (
    series_id INTEGER NOT NULL, bucket INTEGER NOT NULL, readings INTEGER NOT NULL, count INTEGER NOT NULL,
    sum REAL, min REAL, max REAL, first REAL, last REAL,
    PRIMARY KEY (series_id, bucket)
  ) STRICT, WITHOUT ROWID;
  CREATE VIEW sensor_readings AS
    SELECT device_ts AS time, asset_id AS device_id, metric_name AS metric_type, value FROM readings_view;
  CREATE VIEW numbers AS
    SELECT series_id, device_ts, CAST(value AS REAL) AS value FROM readings
    WHERE type IN ('f', 'i', 'b') AND quality >= 64 AND value IS NOT NULL AND value <> 'NaN'
      AND CAST(value AS REAL) > -9e999 AND CAST(value AS REAL) < 9e999;
  CREATE VIEW dirty_1h AS
    SELECT series_id, bucket,
      (SELECT count(*) ${hourOf('readings')}) AS readings,
      (SELECT count(*) ${hourOf('numbers')}) AS count,
      (SELECT sum(value) ${hourOf('numbers')}) AS sum,
      (SELECT min(value) ${hourOf('numbers')}) AS min,
      (SELECT max(value) ${hourOf('numbers')}) AS max,
      (SELECT value ${hourOf('numbers')} ORDER BY device_ts LIMIT 1) AS first,
      (SELECT value ${hourOf('numbers')} ORDER BY device_ts DESC LIMIT 1) AS last
    FROM dirty AS d;
  CREATE VIEW sensor_readings_1h AS
    SELECT bucket, asset_id AS device_id, metric_name AS metric_type, readings, count, sum / nullif(count, 0) AS avg,
      sum, min, max, first, last
    FROM (
      SELECT series_id, bucket, readings, count, sum, min, max, first, last FROM rollup_1h AS r
      WHERE NOT EXISTS (SELECT 1 FROM dirty AS d WHERE d.bucket = r.bucket AND d.series_id = r.series_id)
      UNION ALL
      SELECT series_id, bucket, readings, count, sum, min, max, first, last FROM dirty_1h WHERE readings > 0
    ) JOIN series ON series.id = series_id;
  CREATE VIEW sensor_readings_1d AS
    SELECT bucket - ((bucket % ${DAY_MS} + ${DAY_MS}) % ${DAY_MS}) AS bucket, device_id, metric_type,
      sum(readings) AS readings, sum(count) AS count, sum(sum) / nullif(sum(count), 0) AS avg,
      sum(sum) AS sum, min(min) AS min, max(max) AS max
    FROM sensor_readings_1h GROUP BY 1, 2, 3;
  `,
  'ALTER TABLE series ADD COLUMN duplicates INTEGER NOT NULL DEFAULT 0',
  `
  CREATE TABLE raw_floor (id INTEGER PRIMARY KEY CHECK (id = 1), floor INTEGER, removed INTEGER NOT NULL DEFAULT 0) STRICT;
  INSERT INTO raw_floor (id) VALUES (1);
  `,
  SQLITE_GAP_VIEWS,
  `
  ALTER TABLE series ADD COLUMN unit TEXT;
  DROP VIEW sensor_readings;
  DROP VIEW readings_view;
  CREATE VIEW readings_view AS
    SELECT asset_id, metric_name, device_ts, value, quality, unit
    FROM readings JOIN series ON series.id = readings.series_id;
  CREATE VIEW sensor_readings AS
    SELECT device_ts AS time, asset_id AS device_id, metric_name AS metric_type, value, unit FROM readings_view;
  `,
];

/** Brings the file up to date, all or nothing. Throws `historian.version` on one that a newer program has written. */
export function migrate(db: Database.Database, path: string): void {
  const version = versionOf(db);
  if (version > MIGRATIONS.length)
    throw otherVersion(path, version, 'Run the program version that wrote it, or a newer one.');
  if (version === MIGRATIONS.length) return;
  db.transaction(() => {
    for (const step of MIGRATIONS.slice(version)) db.exec(step);
    db.pragma(`user_version = ${MIGRATIONS.length}`);
  }).immediate();
}

/** For those who only read: throws `historian.version` on a file that is not up to date. */
export function requireCurrent(db: Database.Database, path: string): void {
  const version = versionOf(db);
  if (version !== MIGRATIONS.length)
    throw otherVersion(
      path,
      version,
      'Start the ingest of this version on it first, or use the version that wrote it.',
    );
}

function versionOf(db: Database.Database): number {
  return db.pragma('user_version', { simple: true }) as number;
}

function otherVersion(path: string, version: number, hint: string): HoldfastError {
  return new HoldfastError(
    'historian.version',
    `${path} has schema ${version}, this program knows ${MIGRATIONS.length}`,
    {
      values: { path, version, known: MIGRATIONS.length },
      hint,
    },
  );
}
