import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { PostgresHistorian } from '../../src/ingest/postgres-historian.js';
import { PostgresRecords } from '../../src/ingest/postgres-records.js';
import { backfill } from '../../src/ingest/rollups.js';
import { batchOf, rowsFrom } from '../helpers/batches.js';
import { configFile } from '../helpers/config-file.js';
import { stoppedClock } from '../helpers/historian.js';
import { askUrl, openDatabase, skipPostgres as skip } from '../helpers/postgres.js';
import { Program } from '../helpers/program.js';
import { skipUnless, timescaleDatabase } from '../helpers/timescale.js';

const ROLES = ['holdfast_owner', 'holdfast_writer', 'holdfast_reader'];
const REFUSED = { code: '42501' };

/** Roles belong to the server, not to the database: a second database finds them there. */
async function setUp(url: string) {
  const [{ present }] = (await askUrl(
    url,
    'SELECT count(*) AS present FROM pg_roles WHERE rolname = ANY ($1)',
    ROLES,
  )) as [{ present: number }];
  let script = readFileSync('config/postgres-roles.sql', 'utf8');
  if (present > 0) script = script.replaceAll(/^CREATE ROLE .*$/gm, '');
  await askUrl(url, script);
  const as = (user: string) => {
    const other = new URL(url);
    other.username = user;
    return other.href;
  };
  return { owner: as('holdfast_owner'), writer: as('holdfast_writer'), reader: as('holdfast_reader') };
}

async function leastPrivilege(t: TestContext, database: string, timescale: boolean) {
  const { owner, writer, reader } = await setUp(database);
  // Before there is a schema the writer says what it needs.
  await assert.rejects(PostgresHistorian.open({ url: writer }), (error: Error & { hint?: string }) => {
    assert.match(error.hint ?? '', /historian\.ownerUrl.*ingest migrate/);
    return true;
  });
  const text = `ingest: { id: i }\nsource: { url: "mqtt://127.0.0.1:1" }\nhistorian: { type: postgres, url: "${owner}" }\n`;
  const migrated = new Program(t, ['ingest', 'migrate', '--config', configFile(t, text)]);
  assert.equal((await migrated.ended).code, 0, migrated.stderr);

  const options = timescale ? { url: writer, ownerUrl: owner } : { url: writer };
  const historian = await PostgresHistorian.open({ clock: stoppedClock, ...options, rawHorizonMs: 1 });
  t.after(() => historian.close());
  assert.equal((await historian.ingest(batchOf(rowsFrom(1, 20)))).stored, 20);
  assert.equal((await historian.ingest(batchOf(rowsFrom(15, 30)))).duplicates, 6);
  await historian.bury({ topic: 'a', bytes: Uint8Array.of(1), code: 'wire.malformed', reason: 'noise' });
  assert.equal(await backfill(historian.rollups, stoppedClock.now, new AbortController().signal), true);
  const hours = 'SELECT sum(readings)::int AS n FROM holdfast.sensor_readings_1h';
  assert.deepEqual(await askUrl(reader, hours), [{ n: 30 }]);

  for (const statement of [
    'DROP TABLE holdfast.readings',
    'ALTER TABLE holdfast.readings ADD COLUMN more int',
    'TRUNCATE holdfast.readings',
    'CREATE TABLE holdfast.mine (a int)',
    'DROP SCHEMA holdfast CASCADE',
  ])
    for (const role of [writer, reader]) await assert.rejects(askUrl(role, statement), REFUSED, statement);
  for (const statement of [
    'DELETE FROM holdfast.readings',
    "INSERT INTO holdfast.series (asset_id, metric_name, topic) VALUES ('a', 'b', 'c')",
    "UPDATE holdfast.sources SET gateway = 'x'",
  ])
    await assert.rejects(askUrl(reader, statement), REFUSED, statement);
  const records = await PostgresRecords.open({ url: reader });
  t.after(() => records.close());
  assert.equal((await records.kept('dead', 1)).rows.length, 1);
  assert.deepEqual(await records.silences('nobody'), []);

  await historian.rollups.expire(stoppedClock.now());
  assert.deepEqual(await askUrl(reader, hours), [{ n: 30 }]);
}

test('the writer cannot change the schema, the reader only reads, and all that an ingest does works', {
  skip,
}, async (t) => {
  await leastPrivilege(t, await openDatabase(), false);
});

test('with TimescaleDB the owner refreshes, and the writer still only writes', {
  skip: skipUnless.timescale,
}, async (t) => {
  await leastPrivilege(t, await timescaleDatabase(t), true);
});
