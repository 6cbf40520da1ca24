import { test } from 'node:test';
import { type DeadRow, keptAside } from '../helpers/kept-aside-cases.js';
import { askUrl, openDatabase, skipPostgres } from '../helpers/postgres.js';

test('PostgreSQL: batches of another version and broken ones are kept aside on both doors, and block nothing', {
  skip: skipPostgres,
}, async (t) => {
  const url = await openDatabase();
  await keptAside(t, { type: 'postgres', url }, () =>
    askUrl<DeadRow>(url, 'SELECT code, bytes FROM holdfast.dead_batches'),
  );
});
