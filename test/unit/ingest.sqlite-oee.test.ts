import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { systemClock } from '../../src/lib/clock.js';
import { ask, openHistorian } from '../helpers/historian.js';
import { checkAvailability, type OeeRow } from '../helpers/oee-cases.js';

test('the shipped availability query for SQLite takes no outage for a stop', async (t) => {
  const { historian, path } = await openHistorian(t, { clock: systemClock });
  await checkAvailability(historian, async () =>
    ask<OeeRow>(path, readFileSync('config/oee-availability-sqlite.sql', 'utf8')),
  );
});
