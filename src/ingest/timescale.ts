import { HoldfastError } from '../lib/errors.js';
import type { PostgresClient } from './postgres-pool.js';

/** A day of readings of one site fits into memory, and so do the indexes of the chunk that is written to. */
const CHUNK_INTERVAL = '1 day';

/**
 * Makes the readings a hypertable when TimescaleDB is installed in this database. Nothing else of it is used: rollups are
 * our own (see rollup.ts), because a bounded refresh of a continuous aggregate can leave out buckets without an error
 * (2.28.x), and because the licence of many installations has none. Chunks, retention and compression of the hypertable
 * are the operator's. Throws `historian.version` on versions that lose rows.
 */
export async function useTimescale(client: PostgresClient): Promise<void> {
  const { rows } = await client.query("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'");
  const version: string | undefined = rows[0]?.extversion;
  if (version === undefined) return;
  refuseLossy(version);
  const { rows: found } = await client.query(
    `SELECT 1 FROM timescaledb_information.hypertables
     WHERE hypertable_schema = 'holdfast' AND hypertable_name = 'readings'`,
  );
  if (found.length > 0) return;
  await client.query(
    `SELECT create_hypertable('holdfast.readings', 'device_ts', chunk_time_interval => $1::interval,
       create_default_indexes => false, migrate_data => true)`,
    [CHUNK_INTERVAL],
  );
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
