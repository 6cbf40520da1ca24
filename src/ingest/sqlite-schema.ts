import type Database from 'better-sqlite3';
import { HoldfastError } from '../lib/errors.js';

/**
 * One entry per schema version; `user_version` counts those applied. Never change an entry that has been released.
 *
 * `value` has no column type, because a series may change its type: floats are REAL, integers and booleans INTEGER, text
 * and JSON TEXT, bytes BLOB. What SQLite cannot hold as such is TEXT beside a type that has no text of its own: NaN
 * (SQLite turns it into NULL) as 'NaN' of type `f`, integers above 2⁶³−1 in digits of type `i`.
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
];

/** Brings the file up to date, all or nothing. Throws `historian.version` on one that a newer program has written. */
export function migrate(db: Database.Database, path: string): void {
  const version = db.pragma('user_version', { simple: true }) as number;
  if (version > MIGRATIONS.length)
    throw new HoldfastError(
      'historian.version',
      `${path} has schema ${version}, this program knows ${MIGRATIONS.length}`,
      {
        values: { path, version, known: MIGRATIONS.length },
        hint: 'Run the program version that wrote it, or a newer one.',
      },
    );
  if (version === MIGRATIONS.length) return;
  db.transaction(() => {
    for (const step of MIGRATIONS.slice(version)) db.exec(step);
    db.pragma(`user_version = ${MIGRATIONS.length}`);
  }).immediate();
}
