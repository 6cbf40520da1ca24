import { HoldfastError } from '../lib/errors.js';
import { POSTGRES_MIGRATIONS } from './postgres-migrations.js';
import type { PostgresClient, PostgresPool } from './postgres-pool.js';
import { type Timescale, useTimescale } from './timescale.js';

/** Workers that start at the same time wait here for the first one, which does the work. Any number that is ours alone. */
const MIGRATION_LOCK = 4_839_201_737;
/** Multiranges, `date_bin`. */
const SERVER_VERSION_MIN = 140_000;

/**
 * Brings the schema `holdfast` of the database up to date, all or nothing, and makes sure that a commit is durable. Throws
 * `historian.version` on a database that a newer program has written or that is too old itself, and `historian.io`.
 */
export async function migrate(pool: PostgresPool): Promise<Timescale | undefined> {
  return pool.transaction(async (client) => {
    await requireServer(client);
    await client.query('SELECT pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
    const version = await schemaVersion(client);
    if (version > POSTGRES_MIGRATIONS.length)
      throw otherVersion(version, 'Run the program version that wrote it, or a newer one.');
    if (version < POSTGRES_MIGRATIONS.length) {
      for (const step of POSTGRES_MIGRATIONS.slice(version)) await client.query(step);
      await client.query('UPDATE holdfast.schema_version SET version = $1', [POSTGRES_MIGRATIONS.length]);
    }
    return useTimescale(client);
  });
}

/** For those who only read: throws `historian.version` on a database that is not up to date. */
export async function requireCurrent(pool: PostgresPool): Promise<void> {
  const [found] = await pool.query<{ there: boolean }>(
    "SELECT to_regclass('holdfast.schema_version') IS NOT NULL AS there",
  );
  const [record] = found?.there
    ? await pool.query<{ version: number }>('SELECT version FROM holdfast.schema_version')
    : [];
  const version = record?.version ?? 0;
  if (version !== POSTGRES_MIGRATIONS.length)
    throw otherVersion(version, 'Start the ingest of this version on it first, or use the version that wrote it.');
}

function otherVersion(version: number, hint: string): HoldfastError {
  const known = POSTGRES_MIGRATIONS.length;
  return new HoldfastError('historian.version', `The database has schema ${version}, this program knows ${known}`, {
    values: { version, known },
    hint,
  });
}

async function schemaVersion(client: PostgresClient): Promise<number> {
  const { rows } = await client.query(
    `SELECT to_regclass('holdfast.schema_version') AS found, to_regnamespace('holdfast') AS schema`,
  );
  if (rows[0]?.found === null) {
    // IF NOT EXISTS would ask for the right to create schemas even from the owner of this one.
    if (rows[0].schema === null) await client.query('CREATE SCHEMA holdfast');
    await client.query(`
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
