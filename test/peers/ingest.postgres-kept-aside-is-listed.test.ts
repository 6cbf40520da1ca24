import { test } from 'node:test';
import { PostgresRecords } from '../../src/ingest/postgres-records.js';
import { keptIsListed } from '../helpers/kept-list-cases.js';
import { openPostgres, skipPostgres as skip } from '../helpers/postgres.js';

test('what was kept aside is listed with its reason on PostgreSQL', { skip }, async (t) => {
  const { historian, url } = await openPostgres(t);
  const records = await PostgresRecords.open({ url });
  t.after(() => records.close());
  await keptIsListed(historian, (kind, limit) => records.kept(kind, limit));
});
