import { type TestContext, test } from 'node:test';
import { ARRIVALS, arrives, RAW_HORIZON_MS } from '../helpers/arrival-cases.js';
import { openPostgres, skipPostgres as skip } from '../helpers/postgres.js';
import { skipUnless, timescaleDatabase } from '../helpers/timescale.js';

async function run(t: TestContext, one: (typeof ARRIVALS)[number], url?: string) {
  const { historian, sql } = await openPostgres(t, { rawHorizonMs: RAW_HORIZON_MS, ...(url && { url }) });
  const list = async (text: string) => (await sql<Record<string, never>>(text)).map((row) => Object.values(row));
  await arrives(one, historian, async () => ({
    values: (await list('SELECT number FROM holdfast.readings ORDER BY device_ts')).flat(),
    conflicts: (await list('SELECT number FROM holdfast.conflicts ORDER BY device_ts, source_id')).flat(),
    aside: (await list('SELECT seq, reason FROM holdfast.quarantine ORDER BY seq')) as never,
    hours: (await list(
      `SELECT (extract(epoch FROM bucket) * 1000)::bigint, readings::bigint AS n, sum
       FROM holdfast.sensor_readings_1h ORDER BY bucket`,
    )) as never,
  }));
}

for (const one of ARRIVALS) {
  test(`PostgreSQL: ${one.name}`, { skip }, (t) => run(t, one));
  test(`TimescaleDB: ${one.name}`, { skip: skipUnless.timescale }, async (t) =>
    run(t, one, await timescaleDatabase(t)),
  );
}
