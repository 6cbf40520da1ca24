import assert from 'node:assert/strict';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { hourOf } from '../../src/ingest/rollups.js';
import { batchOf } from '../helpers/batches.js';
import { configFile } from '../helpers/config-file.js';
import { ask, openHistorian } from '../helpers/historian.js';
import { Program } from '../helpers/program.js';
import { reading, readingRow } from '../helpers/rows.js';
import { until } from '../helpers/wait.js';

const HOUR = 3_600_000;
const H0 = hourOf(1_700_000_000_000);
const HOURS = 200;
const UNIT_HOURS = 32;

/** Takes longer than any test; the process that meets it is killed there. */
const FOR_EVER = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n;';

/** Where a unit stands when it dies. The last hour of a unit is written before its markers are all gone. */
const STEPS: readonly (readonly [string, string])[] = [
  ['before the first hour is written', 'BEFORE INSERT ON rollup_1h'],
  ['after the first hour, before its marker goes', 'AFTER INSERT ON rollup_1h'],
  ['at the first marker', 'BEFORE DELETE ON dirty'],
  ['after the first marker, before the next hour', 'AFTER DELETE ON dirty'],
  ['in the middle of the unit', `AFTER INSERT ON rollup_1h WHEN new.bucket = ${H0 + 16 * HOUR}`],
  ['after the last marker, before the commit', `AFTER DELETE ON dirty WHEN old.bucket = ${H0 + 31 * HOUR}`],
];

test('holdfast backfill --run killed at every step of a unit undoes that unit only, and ends exact', async (t) => {
  const { historian, path } = await openHistorian(t);
  const rows = Array.from({ length: 4 * HOURS }, (_, n) =>
    readingRow(n + 1, reading('f', n, { ts: (H0 + (n * HOUR) / 4) as never })),
  );
  await historian.ingest(batchOf(rows));
  const config = configFile(
    t,
    `ingest: { id: i }\nsource: { url: "mqtt://127.0.0.1:1" }\nhistorian: { path: ${JSON.stringify(path)} }\n`,
  );
  const db = new Database(path, { timeout: 0 });
  t.after(() => db.close());
  const held = () => {
    try {
      db.exec('BEGIN IMMEDIATE; ROLLBACK');
      return undefined;
    } catch (error) {
      return (error as { code: string }).code === 'SQLITE_BUSY' ? true : assert.fail(error as Error);
    }
  };
  const run = () => new Program(t, ['backfill', '--config', config, '--run', '--json']);
  const marked = () => ask<{ n: number }>(path, 'SELECT count(*) AS n FROM dirty')[0]!.n;
  const wrong = () =>
    ask(
      path,
      `SELECT bucket FROM sensor_readings_1h FULL JOIN (
         SELECT device_ts - device_ts % ${HOUR} AS bucket, count(*) AS n, sum(value) AS total FROM readings GROUP BY 1
       ) AS raw USING (bucket) WHERE readings IS NOT n OR sum IS NOT total`,
    );

  for (const [step, when] of STEPS) {
    db.exec(`CREATE TRIGGER stuck ${when} BEGIN ${FOR_EVER} END`);
    const program = run();
    await until(`the backfill to be ${step}`, held, 20_000);
    await program.kill();
    db.exec('DROP TRIGGER stuck');
    assert.deepEqual([step, program.lines, marked(), wrong()], [step, [], HOURS, []]);
  }
  db.exec(`CREATE TRIGGER stuck AFTER INSERT ON rollup_1h WHEN new.bucket = ${H0 + 2 * UNIT_HOURS * HOUR}
    BEGIN ${FOR_EVER} END`);
  const third = run();
  await until('two units to be done', () => third.lines.length === 2, 20_000);
  await third.kill();
  db.exec('DROP TRIGGER stuck');
  assert.deepEqual([marked(), wrong()], [HOURS - 2 * UNIT_HOURS, []]);

  const last = run();
  assert.equal((await last.ended).code, 0, last.stderr);
  assert.deepEqual([marked(), wrong()], [0, []]);
  const made = ask<{ n: number }>(path, 'SELECT sum(readings) AS n FROM rollup_1h');
  assert.deepEqual(made, [{ n: 4 * HOURS }]);
  const progress = last.lines.at(-1)?.progress as { doneHours: number; totalHours: number; etaMs: number };
  const rest = HOURS - 2 * UNIT_HOURS;
  assert.deepEqual([progress.doneHours, progress.totalHours, progress.etaMs], [rest, rest, 0]);
});
