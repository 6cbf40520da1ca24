import assert from 'node:assert/strict';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { encodeColumns } from '../../src/wire/columns.js';
import { compress } from '../../src/wire/compress.js';
import { batchOf, rowsFrom } from '../helpers/batches.js';
import { ask, openHistorian } from '../helpers/historian.js';
import { openIngest } from '../helpers/ingest.js';
import { source, T0 } from '../helpers/rows.js';

const unitOf = (unit: string) => ({ units: new Map([['press01', new Map([['temperature', unit]])]]) });
const UNITS = 'SELECT DISTINCT unit FROM sensor_readings';

test('a unit comes in through the door and stands in the views as their last column', async (t) => {
  const http = { listen: '127.0.0.1:0', path: '/ingest', bodyBytesMax: 64 * 1024 };
  const { ingest, path } = await openIngest(t, 'mqtt://127.0.0.1:9', { http });
  const body = await compress(encodeColumns(source(), rowsFrom(1, 2), unitOf('°C')));
  const response = await fetch(ingest.httpUrl!, { method: 'POST', body });
  assert.equal(response.status, 200);
  await response.arrayBuffer();
  for (const view of ['readings_view', 'sensor_readings']) {
    const [row] = ask(path, `SELECT * FROM ${view}`);
    assert.deepEqual(Object.entries(row!).at(-1), ['unit', '°C']);
  }
});

test('SQLite keeps a unit until another one comes, over a restart too', async (t) => {
  const { historian, path } = await openHistorian(t);
  await historian.ingest(batchOf(rowsFrom(1, 2)));
  assert.deepEqual(ask(path, UNITS), [{ unit: null }]);
  await historian.ingest(batchOf(rowsFrom(3, 4), 'line-1', 'e1', unitOf('°C')));
  await historian.ingest(batchOf(rowsFrom(5, 6)));
  assert.deepEqual(ask(path, UNITS), [{ unit: '°C' }]);
  await historian.ingest(batchOf(rowsFrom(7, 8), 'line-1', 'e1', unitOf('°F')));
  assert.deepEqual(ask(path, UNITS), [{ unit: '°F' }]);
  await historian.close();
  const again = await openHistorian(t, { path });
  await again.historian.ingest(batchOf(rowsFrom(9, 10)));
  assert.deepEqual(ask(path, UNITS), [{ unit: '°F' }]);
});

test('a file from before there were units is brought up to date with its readings', async (t) => {
  const { historian, path } = await openHistorian(t);
  await historian.ingest(batchOf(rowsFrom(1, 2)));
  await historian.close();
  const db = new Database(path);
  db.exec(`DROP VIEW sensor_readings; DROP VIEW readings_view; ALTER TABLE series DROP COLUMN unit;
    CREATE VIEW readings_view AS SELECT asset_id, metric_name, device_ts, value, quality
      FROM readings JOIN series ON series.id = readings.series_id;
    CREATE VIEW sensor_readings AS
      SELECT device_ts AS time, asset_id AS device_id, metric_name AS metric_type, value FROM readings_view`);
  db.pragma('user_version = 5');
  db.close();
  await openHistorian(t, { path });
  assert.deepEqual(ask(path, 'SELECT time, value, unit FROM sensor_readings'), [
    { time: T0 + 1000, value: 1, unit: null },
    { time: T0 + 2000, value: 2, unit: null },
  ]);
});
