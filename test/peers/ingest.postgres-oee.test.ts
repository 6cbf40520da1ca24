import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { systemClock } from '../../src/lib/clock.js';
import { checkAvailability } from '../helpers/oee-cases.js';
import { openPostgres, skipPostgres as skip } from '../helpers/postgres.js';

test('the shipped availability query takes no outage for a stop', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t, { clock: systemClock });
  await checkAvailability(historian, async () => {
    const rows = await sql(readFileSync('config/oee-availability.sql', 'utf8'));
    return rows.map((row) => ({ ...row, hour: row.hour.getTime() }));
  });
});
