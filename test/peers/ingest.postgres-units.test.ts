import assert from 'node:assert/strict';
import { test } from 'node:test';
import { batchOf, rowsFrom } from '../helpers/batches.js';
import { openPostgres, skipPostgres as skip } from '../helpers/postgres.js';

const unitOf = (unit: string) => ({ units: new Map([['press01', new Map([['temperature', unit]])]]) });
const UNITS = 'SELECT DISTINCT unit FROM holdfast.sensor_readings';

test('PostgreSQL keeps a unit until another one comes, and shows it as the last column', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t);
  await historian.ingest(batchOf(rowsFrom(1, 2)));
  assert.deepEqual(await sql(UNITS), [{ unit: null }]);
  await historian.ingest(batchOf(rowsFrom(3, 4), 'line-1', 'e1', unitOf('°C')));
  await historian.ingest(batchOf(rowsFrom(5, 6)));
  assert.deepEqual(await sql(UNITS), [{ unit: '°C' }]);
  await historian.ingest(batchOf(rowsFrom(7, 8), 'line-1', 'e1', unitOf('°F')));
  assert.deepEqual(await sql(UNITS), [{ unit: '°F' }]);
  for (const view of ['readings_view', 'sensor_readings']) {
    const [row] = await sql(`SELECT * FROM holdfast.${view} LIMIT 1`);
    assert.deepEqual(Object.entries(row!).at(-1), ['unit', '°F']);
  }
});

test('a unit that another worker has changed is set right when the batches name it again', { skip }, async (t) => {
  let ms = 1_790_100_000_000;
  const clock = { now: () => ms as never, mono: () => performance.now() };
  const { historian, sql } = await openPostgres(t, { clock });
  await historian.ingest(batchOf(rowsFrom(1, 2), 'line-1', 'e1', unitOf('°C')));
  await sql("UPDATE holdfast.series SET unit = '°F'");
  ms += 60_000;
  await historian.ingest(batchOf(rowsFrom(3, 4), 'line-1', 'e1', unitOf('°C')));
  assert.deepEqual(await sql(UNITS), [{ unit: '°C' }]);
});
