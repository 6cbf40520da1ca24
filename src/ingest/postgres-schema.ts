import { HoldfastError } from '../lib/errors.js';
import type { PostgresClient, PostgresPool } from './postgres-pool.js';
import { useTimescale } from './timescale.js';

/**
 * One entry per schema version; `holdfast.schema_version` has the number of those applied. Never change an entry that has
 * been released.
 *
 * A value stands in the column of its kind: `number` for floats, `whole` for integers up to 2⁶⁴−1 and booleans as 0 and 1,
 * `text` for text and JSON, `bytes` for bytes. Text that holds a NUL, which PostgreSQL's `text` cannot, is in `bytes` as
 * UTF-8, its type still `s`. Device times are exact to the millisecond.
 */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE holdfast.sources (
    id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, gateway text NOT NULL, epoch text NOT NULL,
    received int8multirange NOT NULL DEFAULT '{}', last_batch_at bigint NOT NULL DEFAULT 0, newest_ts bigint,
    batches bigint NOT NULL DEFAULT 0, rows bigint NOT NULL DEFAULT 0, stored bigint NOT NULL DEFAULT 0,
    duplicates bigint NOT NULL DEFAULT 0, conflicts bigint NOT NULL DEFAULT 0, gaps bigint NOT NULL DEFAULT 0,
    quarantined bigint NOT NULL DEFAULT 0, opaque bigint NOT NULL DEFAULT 0,
    UNIQUE (gateway, epoch)
  ) WITH (fillfactor = 50);
  CREATE TABLE holdfast.lost (
    source_id int NOT NULL, first bigint NOT NULL, last bigint NOT NULL, reason text NOT NULL,
    PRIMARY KEY (source_id, first, last, reason)
  );
  CREATE TABLE holdfast.series (
    id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, asset_id text NOT NULL, metric_name text NOT NULL,
    topic text NOT NULL, UNIQUE (asset_id, metric_name)
  );
  CREATE TABLE holdfast.readings (
    series_id int NOT NULL, device_ts timestamptz NOT NULL, type "char" NOT NULL,
    number float8, whole numeric, text text, bytes bytea,
    quality smallint NOT NULL, source_id int NOT NULL, seq bigint NOT NULL,
    PRIMARY KEY (series_id, device_ts)
  );
  CREATE TABLE holdfast.conflicts (
    series_id int NOT NULL, device_ts timestamptz NOT NULL, source_id int NOT NULL, seq bigint NOT NULL,
    type "char" NOT NULL, number float8, whole numeric, text text, bytes bytea, quality smallint NOT NULL,
    received_at timestamptz NOT NULL,
    PRIMARY KEY (series_id, device_ts, source_id, seq)
  );
  CREATE TABLE holdfast.absorbed (
    series_id int NOT NULL, device_ts timestamptz NOT NULL, source_id int NOT NULL, seq bigint NOT NULL,
    PRIMARY KEY (series_id, device_ts, source_id, seq)
  );
  CREATE TABLE holdfast.gaps (
    source_id int NOT NULL, seq bigint NOT NULL, asset_id text NOT NULL, metric_name text,
    from_ts timestamptz NOT NULL, to_ts timestamptz NOT NULL, count bigint, reason text NOT NULL, detail text,
    received_at timestamptz NOT NULL,
    PRIMARY KEY (source_id, seq)
  );
  CREATE INDEX gaps_of_asset ON holdfast.gaps (asset_id, from_ts);
  CREATE TABLE holdfast.opaque (
    source_id int NOT NULL, seq bigint NOT NULL, topic text NOT NULL, ts bigint NOT NULL, retain boolean NOT NULL,
    payload bytea NOT NULL, received_at timestamptz NOT NULL,
    PRIMARY KEY (source_id, seq)
  );
  CREATE TABLE holdfast.quarantine (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, source_id int NOT NULL, seq bigint NOT NULL,
    reason text NOT NULL, topic text NOT NULL, asset_id text, metric_name text, ts bigint NOT NULL, type "char" NOT NULL,
    number float8, whole numeric, text text, bytes bytea, quality smallint NOT NULL, received_at timestamptz NOT NULL,
    UNIQUE (source_id, seq, reason, topic, ts)
  );
  CREATE TABLE holdfast.dead_batches (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, topic text NOT NULL, sha256 bytea NOT NULL, code text NOT NULL,
    reason text NOT NULL, bytes bytea NOT NULL, received_at timestamptz NOT NULL,
    UNIQUE (sha256, topic)
  );
  CREATE TABLE holdfast.dirty (
    bucket timestamptz NOT NULL, series_id int NOT NULL, id bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (bucket, series_id, id)
  );
  CREATE VIEW holdfast.readings_view AS
    SELECT asset_id, metric_name, device_ts, coalesce(number, whole::float8) AS value, quality,
      type, whole AS value_exact, text AS value_text, bytes AS value_bytes
    FROM holdfast.readings JOIN holdfast.series ON series.id = series_id;
  CREATE VIEW holdfast.sensor_readings AS
    SELECT device_ts AS time, asset_id AS device_id, metric_name AS metric_type, value FROM holdfast.readings_view;
  `,
];

/** Workers that start at the same time wait here for the first one, which does the work. Any number that is ours alone. */
const MIGRATION_LOCK = 4_839_201_737;
/** Multiranges, `date_bin`. */
const SERVER_VERSION_MIN = 140_000;

/**
 * Brings the schema `holdfast` of the database up to date, all or nothing, and makes sure that a commit is durable. Throws
 * `historian.version` on a database that a newer program has written or that is too old itself, and `historian.io`.
 */
export async function migrate(pool: PostgresPool): Promise<void> {
  await pool.transaction(async (client) => {
    await requireServer(client);
    await client.query('SELECT pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
    const version = await schemaVersion(client);
    if (version > MIGRATIONS.length)
      throw new HoldfastError(
        'historian.version',
        `The database has schema ${version}, this program knows ${MIGRATIONS.length}`,
        {
          values: { version, known: MIGRATIONS.length },
          hint: 'Run the program version that wrote it, or a newer one.',
        },
      );
    if (version < MIGRATIONS.length) {
      for (const step of MIGRATIONS.slice(version)) await client.query(step);
      await client.query('UPDATE holdfast.schema_version SET version = $1', [MIGRATIONS.length]);
    }
    await useTimescale(client);
  });
}

async function schemaVersion(client: PostgresClient): Promise<number> {
  const { rows } = await client.query("SELECT to_regclass('holdfast.schema_version') AS found");
  if (rows[0]?.found === null) {
    await client.query(`
      CREATE SCHEMA IF NOT EXISTS holdfast;
      CREATE TABLE holdfast.schema_version (one boolean PRIMARY KEY DEFAULT true CHECK (one), version int NOT NULL);
      INSERT INTO holdfast.schema_version (version) VALUES (0)`);
    return 0;
  }
  return (await client.query('SELECT version FROM holdfast.schema_version')).rows[0].version;
}

async function requireServer(client: PostgresClient): Promise<void> {
  const { rows } = await client.query(
    `SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS version,
       current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commit,
       current_setting('server_encoding') AS encoding`,
  );
  const { number, version, fsync, commit, encoding } = rows[0];
  if (number < SERVER_VERSION_MIN)
    throw new HoldfastError('historian.version', `PostgreSQL ${version} is too old`, {
      values: { version },
      hint: 'Use PostgreSQL 14 or newer.',
    });
  if (encoding !== 'UTF8')
    throw new HoldfastError('historian.version', `The database's encoding is ${encoding}`, {
      values: { encoding },
      hint: 'Create the database with ENCODING UTF8.',
    });
  requireDurable(fsync, commit);
}

/** Throws `historian.io` when a COMMIT could return before the disk has it. */
export function requireDurable(fsync: string, synchronousCommit: string): void {
  if (fsync === 'on' && synchronousCommit !== 'off') return;
  throw new HoldfastError('historian.io', 'PostgreSQL does not commit durably', {
    values: { fsync, synchronousCommit },
    hint: 'Set fsync = on and synchronous_commit = on (or local, remote_write, remote_apply) for this database and user.',
  });
}
