import { test } from 'node:test';
import { PostgresRecords } from '../../src/ingest/postgres-records.js';
import { systemClock } from '../../src/lib/clock.js';
import { openPostgres, skipPostgres as skip } from '../helpers/postgres.js';
import { type StatusRow, silentAndKnown } from '../helpers/silence-cases.js';

test('silent devices and gaps_status are the same on PostgreSQL', { skip }, async (t) => {
  const { historian, url, sql } = await openPostgres(t, { clock: systemClock });
  const records = await PostgresRecords.open({ url });
  t.after(() => records.close());
  await silentAndKnown(historian, records, () =>
    sql<StatusRow & Record<string, unknown>>('SELECT * FROM holdfast.gaps_status'),
  );
});
