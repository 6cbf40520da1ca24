import { test } from 'node:test';
import { SqliteRecords } from '../../src/ingest/sqlite-records.js';
import { systemClock } from '../../src/lib/clock.js';
import { ask, openHistorian } from '../helpers/historian.js';
import { type StatusRow, silentAndKnown } from '../helpers/silence-cases.js';

test('a device is silent by its own pace, late while its gateway is, and gaps_status says what the report says', async (t) => {
  const { historian, path } = await openHistorian(t, { clock: systemClock });
  const records = SqliteRecords.open(path);
  t.after(() => records.close());
  await silentAndKnown(historian, records, async () => ask<StatusRow>(path, 'SELECT * FROM gaps_status'));
});
