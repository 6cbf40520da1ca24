import { HoldfastError } from '../lib/errors.js';
import type { PostgresClient, PostgresPool } from './postgres-pool.js';
import { TIMESCALE_ROLLUPS } from './timescale-schema.js';

/** A day of readings of one site fits into memory, and so do the indexes of the chunk that is written to. */
const CHUNK_INTERVAL = '1 day';

export interface Timescale {
  readonly version: string;
  /** `apache` has hypertables only: rollups are our own then. */
  readonly licence: 'timescale' | 'apache';
}

/**
 * What there is of TimescaleDB in this database, undefined if nothing. With it the readings are a hypertable; under the
 * Timescale licence its chunks are compressed and the rollups are continuous aggregates, see timescale-rollups.ts. Throws
 * `historian.version` on versions that lose rows.
 */
export async function useTimescale(client: PostgresClient): Promise<Timescale | undefined> {
  const { rows } = await client.query("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'");
  const version: string | undefined = rows[0]?.extversion;
  if (version === undefined) return undefined;
  refuseLossy(version);
  const { rows: settings } = await client.query<{ licence: string }>(
    "SELECT current_setting('timescaledb.license') AS licence",
  );
  const licence = settings[0]?.licence === 'timescale' ? 'timescale' : 'apache';
  if (!(await exists(client, 'hypertables', 'hypertable', 'readings')))
    await client.query(
      `SELECT create_hypertable('holdfast.readings', 'device_ts', chunk_time_interval => $1::interval,
         create_default_indexes => false, migrate_data => true)`,
      [CHUNK_INTERVAL],
    );
  const rolled = await exists(client, 'continuous_aggregates', 'view', 'readings_1h');
  if (licence === 'timescale' && !rolled) for (const step of TIMESCALE_ROLLUPS) await client.query(step);
  if (licence === 'apache' && rolled)
    throw new HoldfastError(
      'historian.version',
      'The rollups are continuous aggregates, which the licence now excludes',
      {
        values: { version, licence },
        hint: "Set timescaledb.license = 'timescale' again.",
      },
    );
  return { version, licence };
}

/** What to tell an operator who has set a retention policy on the readings, which knows nothing of the floor. */
export async function foreignRetention(pool: PostgresPool): Promise<string | undefined> {
  const found = await pool.query(
    `SELECT 1 FROM timescaledb_information.jobs
     WHERE proc_name = 'policy_retention' AND hypertable_schema = 'holdfast' AND hypertable_name = 'readings'`,
  );
  if (found.length === 0) return undefined;
  return 'a retention policy on holdfast.readings removes readings whose rollups may not be done: remove_retention_policy, then historian.rawHorizon';
}

async function exists(client: PostgresClient, view: string, kind: string, name: string): Promise<boolean> {
  const { rows } = await client.query(
    `SELECT 1 FROM timescaledb_information.${view} WHERE ${kind}_schema = 'holdfast' AND ${kind}_name = $1`,
    [name],
  );
  return rows.length > 0;
}

/**
 * Up to 2.18.0 `ON CONFLICT DO NOTHING` into compressed chunks could stop at the first conflict and leave the rest of the
 * rows out without an error; fixed in 2.18.1.
 */
export function refuseLossy(version: string): void {
  const [major = 0, minor = 0, patch = 0] = version.split(/[.-]/).map(Number);
  if (major > 2 || (major === 2 && (minor > 18 || (minor === 18 && patch >= 1)))) return;
  throw new HoldfastError('historian.version', `TimescaleDB ${version} can lose rows without an error`, {
    values: { version },
    hint: 'Update the extension to 2.18.1 or newer, or use a database without it.',
  });
}

/**
 * In 2.28 a refresh in batches of buckets may leave the last bucket out and report success; in one batch it does not. Other
 * versions do not know the option, or do not need it.
 */
export function refreshOptions(version: string): string {
  return version.startsWith('2.28.') ? `, options => '{"buckets_per_batch": 0}'` : '';
}
