import { SALVAGE_SCHEMA } from './salvage.js';
import { TALLIES_SCHEMA } from './tallies.js';

/** Steps of the spool's schema, oldest first; released ones are never edited. */
export const MIGRATIONS = [
  `CREATE TABLE spool (
     seq         INTEGER PRIMARY KEY AUTOINCREMENT,
     topic       TEXT NOT NULL,
     payload     BLOB NOT NULL,
     props       BLOB,
     flags       INTEGER NOT NULL,
     asset_id    TEXT,
     metric_name TEXT,
     device_ts   INTEGER,
     enqueued_at INTEGER NOT NULL
   ) STRICT;
   CREATE TABLE spool_state (
     id           INTEGER PRIMARY KEY CHECK (id = 1),
     epoch        TEXT NOT NULL,
     rows         INTEGER NOT NULL,
     bytes        INTEGER NOT NULL,
     received     INTEGER NOT NULL,
     acknowledged INTEGER NOT NULL,
     alive_at     INTEGER NOT NULL,
     closed_at    INTEGER
   ) STRICT;`,
  `CREATE TABLE dead_letters (
     seq         INTEGER PRIMARY KEY,
     topic       TEXT NOT NULL,
     payload     BLOB NOT NULL,
     props       BLOB,
     flags       INTEGER NOT NULL,
     asset_id    TEXT,
     metric_name TEXT,
     device_ts   INTEGER,
     enqueued_at INTEGER NOT NULL,
     buried_at   INTEGER NOT NULL,
     reason      TEXT NOT NULL
   ) STRICT;
   ALTER TABLE spool_state ADD COLUMN dead INTEGER NOT NULL DEFAULT 0;`,
  TALLIES_SCHEMA,
  `CREATE TABLE spool_lost (
     first  INTEGER PRIMARY KEY,
     last   INTEGER NOT NULL,
     reason TEXT NOT NULL
   ) STRICT;
   CREATE TABLE spool_damage (
     id     INTEGER PRIMARY KEY,
     report TEXT NOT NULL
   ) STRICT;
   ALTER TABLE spool_state ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;
   ALTER TABLE spool ADD COLUMN checksum INTEGER;`,
  SALVAGE_SCHEMA,
];
