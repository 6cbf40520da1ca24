import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PostgresPool } from '../../src/ingest/postgres-pool.js';
import { backfill } from '../../src/ingest/rollups.js';
import { TimescaleRollups } from '../../src/ingest/timescale-rollups.js';
import { batchOf } from '../helpers/batches.js';
import { stoppedClock } from '../helpers/historian.js';
import { openPostgres } from '../helpers/postgres.js';
import { reading, readingRow, T0 } from '../helpers/rows.js';
import { skipUnless, timescaleDatabase } from '../helpers/timescale.js';

const skip = skipUnless.timescale;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const D0 = Math.floor(T0 / DAY) * DAY - 10 * DAY;

test('a refresh that exceeds its time is done again in halves until each is within it', { skip }, async (t) => {
  const { historian, url, sql } = await openPostgres(t, { url: await timescaleDatabase(t) });
  const rows = Array.from({ length: 24 }, (_, n) =>
    readingRow(n + 1, reading('f', n, { ts: (D0 + n * HOUR) as never })),
  );
  await historian.ingest(batchOf(rows));
  // A day of hours sleeps longer than the limit; a quarter of it does not.
  const [table] = await sql<{ name: string }>(
    `SELECT format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name) AS name
     FROM timescaledb_information.continuous_aggregates WHERE view_name = 'readings_1h'`,
  );
  await sql(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.2); RETURN new; END $$`);
  await sql(`CREATE TRIGGER slow BEFORE INSERT ON ${table!.name} FOR EACH ROW EXECUTE FUNCTION slow()`);
  const pool = new PostgresPool({ url, connections: 2, applicationName: 'test' });
  t.after(() => pool.close());
  const [{ version }] = (await sql<{ version: string }>(
    "SELECT extversion AS version FROM pg_extension WHERE extname = 'timescaledb'",
  )) as [{ version: string }];
  const rollups = new TimescaleRollups(pool, { version, licence: 'timescale' }, undefined, 3000);
  assert.equal(await backfill(rollups, stoppedClock.now, new AbortController().signal), true);
  assert.deepEqual(await sql('SELECT count(*) AS hours, sum(readings)::int AS n FROM holdfast.readings_1h'), [
    { hours: 24, n: 24 },
  ]);
  assert.deepEqual(await sql('SELECT * FROM holdfast.dirty'), []);
});

test('a retention policy that somebody has set on the readings is told, and ends with the policy', {
  skip,
}, async (t) => {
  const url = await timescaleDatabase(t);
  const { historian: first, sql } = await openPostgres(t, { url });
  assert.equal(first.warning, undefined);
  await sql("SELECT add_retention_policy('holdfast.readings', INTERVAL '30 days')");
  const { historian } = await openPostgres(t, { url });
  assert.match(historian.warning ?? '', /retention policy on holdfast\.readings.*rawHorizon/);
  await sql("SELECT remove_retention_policy('holdfast.readings')");
  const { historian: last } = await openPostgres(t, { url });
  assert.equal(last.warning, undefined);
});
