import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hourOf } from '../../src/ingest/rollups.js';
import { batchOf } from '../helpers/batches.js';
import { configFile } from '../helpers/config-file.js';
import { openCuttingProxy } from '../helpers/cutting-proxy.js';
import { openPostgres, skipPostgres as skip } from '../helpers/postgres.js';
import { Program } from '../helpers/program.js';
import { reading, readingRow } from '../helpers/rows.js';
import { until } from '../helpers/wait.js';

const HOUR = 3_600_000;
const H0 = hourOf(1_700_000_000_000);
const HOURS = 1000;

/** The number of the lock with which a unit begins. */
const LOCK = '4839201738';
/** Every statement of a unit, in its order. */
const STATEMENTS = [
  LOCK,
  'array_agg(DISTINCT id)',
  'INSERT INTO holdfast.rollup_1h',
  'AS agrees',
  'DELETE FROM holdfast.rollup_1h',
  'DELETE FROM holdfast.dirty',
  'INSERT INTO holdfast.dirty',
  'COMMIT',
];

/** The historian that the test itself holds open is idle and in no transaction. */
const SESSIONS = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'holdfast-ingest' AND state <> 'idle'";
const RAW = `SELECT date_bin('1 hour', device_ts, 'epoch'::timestamptz) AS bucket, count(*) AS n, sum(number) AS total
  FROM holdfast.readings GROUP BY 1`;
const wrongIn = (
  table: string,
) => `SELECT count(*) AS wrong FROM ${table} AS made FULL JOIN (${RAW}) AS raw USING (bucket)
  WHERE (readings, sum) IS DISTINCT FROM (n, total)`;

test('holdfast backfill --run killed at every statement of a unit, sent or not, ends exact', { skip }, async (t) => {
  const { historian, url, sql } = await openPostgres(t);
  const rows = Array.from({ length: 2 * HOURS }, (_, n) =>
    readingRow(n + 1, reading('f', n, { ts: (H0 + (n * HOUR) / 2) as never })),
  );
  await historian.ingest(batchOf(rows));
  const start = (database: string) => {
    const text = `ingest: { id: i }\nsource: { url: "mqtt://127.0.0.1:1" }\nhistorian: { type: postgres, url: "${database}" }\n`;
    return new Program(t, ['backfill', '--config', configFile(t, text), '--run', '--json']);
  };
  const marked = async () => (await sql<{ n: number }>('SELECT count(DISTINCT bucket) AS n FROM holdfast.dirty'))[0]!.n;
  for (const text of STATEMENTS)
    for (const delivered of [false, true]) {
      let reached = false;
      const { port } = new URL(url);
      const proxied = new URL(url);
      let program: Program | undefined;
      proxied.port = `${await openCuttingProxy(t, Number(port), { after: LOCK, text, delivered }, () => {
        reached = true;
        void program?.kill();
      })}`;
      program = start(proxied.href);
      await program.ended;
      assert.ok(reached, `${text}: ${program.stderr}`);
      const done = text === 'COMMIT' && delivered ? 256 : 0;
      await until('the server to be done with it', async () => (await sql(SESSIONS)).length === 0);
      const [view] = await sql<{ wrong: number }>(wrongIn('holdfast.sensor_readings_1h'));
      assert.deepEqual([text, delivered, await marked(), view?.wrong], [text, delivered, HOURS - done, 0]);
    }
  const last = start(url);
  assert.equal((await last.ended).code, 0, last.stderr);
  assert.deepEqual(await sql(wrongIn('holdfast.rollup_1h')), [{ wrong: 0 }]);
  assert.equal(await marked(), 0);
});
