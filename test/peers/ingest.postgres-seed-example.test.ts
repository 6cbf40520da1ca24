import { test } from 'node:test';
import { openPostgres, skipPostgres as skip } from '../helpers/postgres.js';
import { type Bucket, seedExample } from '../helpers/seed-cases.js';
import { skipUnless, timescaleDatabase } from '../helpers/timescale.js';

const BUCKETS = (table: string) => `SELECT (extract(epoch FROM bucket) * 1000)::bigint AS bucket, count(*) AS series,
  sum(readings)::bigint AS n FROM holdfast.${table} GROUP BY 1 ORDER BY 1`;

test('twelve windows of 21,600 rows make six hourly buckets per series on PostgreSQL', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t);
  await seedExample(historian, () => sql<Bucket & Record<string, unknown>>(BUCKETS('rollup_1h')));
});

test('the same in the continuous aggregate of TimescaleDB', { skip: skipUnless.timescale }, async (t) => {
  const { historian, sql } = await openPostgres(t, { url: await timescaleDatabase(t) });
  await seedExample(historian, () => sql<Bucket & Record<string, unknown>>(BUCKETS('readings_1h')));
});
