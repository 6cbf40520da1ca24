import { test } from 'node:test';
import { ask, openHistorian } from '../helpers/historian.js';
import { type Bucket, seedExample } from '../helpers/seed-cases.js';

const BUCKETS = 'SELECT bucket, count(*) AS series, sum(readings) AS n FROM rollup_1h GROUP BY 1 ORDER BY 1';

test('six hours that come late in twelve windows of 21,600 rows make six hourly buckets per series, all complete', async (t) => {
  const { historian, path } = await openHistorian(t);
  await seedExample(historian, async () => ask<Bucket>(path, BUCKETS));
});
