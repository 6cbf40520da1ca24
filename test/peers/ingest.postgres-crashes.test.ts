import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import pg from 'pg';
import { PostgresPool } from '../../src/ingest/postgres-pool.js';
import { batchOf, rowsFrom } from '../helpers/batches.js';
import { crashPostgres, openDatabase, openPostgres, skipPostgres as skip } from '../helpers/postgres.js';
import { reading, readingRow, T0 } from '../helpers/rows.js';
import { until } from '../helpers/wait.js';

test('workers that store the same keys in opposite orders all succeed, each row once', { skip }, async (t) => {
  const { historian: one, url, sql } = await openPostgres(t);
  const { historian: two } = await openPostgres(t, { url });
  const rows = (gateway: string, turned: boolean) =>
    Array.from({ length: 40 }, (_, round) => {
      const at = Array.from({ length: 100 }, (_, n) => (turned ? 99 - n : n));
      const readings = at.map((n, i) =>
        readingRow(
          round * 100 + i + 1,
          reading('f', n, { metric: `m${n % 10}`, ts: (T0 + round * 1000 + n) as never }),
        ),
      );
      return batchOf(readings, gateway);
    });
  const outcomes = await Promise.all([
    ...rows('line-1', false).map((batch) => one.ingest(batch)),
    ...rows('line-2', true).map((batch) => two.ingest(batch)),
  ]);
  const sum = (key: 'stored' | 'duplicates') => outcomes.reduce((total, outcome) => total + outcome[key], 0);
  assert.deepEqual([sum('stored'), sum('duplicates')], [4000, 4000]);
  assert.equal((await sql('SELECT count(*) AS n FROM holdfast.readings'))[0]?.n, 4000);
  assert.equal((await sql('SELECT count(*) AS n FROM holdfast.absorbed'))[0]?.n, 4000);
  // Counted when a session ends.
  await Promise.all([one.close(), two.close()]);
  const deadlocks = 'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()';
  assert.deepEqual(await sql(deadlocks), [{ deadlocks: 0 }]);
});

test('of two transactions in a deadlock the loser runs again and both are committed', { skip }, async (t) => {
  const url = await openDatabase();
  const pool = new PostgresPool({ url, connections: 2, applicationName: 'test' });
  t.after(() => pool.close());
  await pool.query('CREATE TABLE pair (id int PRIMARY KEY, n int NOT NULL)');
  await pool.query('INSERT INTO pair VALUES (1, 0), (2, 0)');
  let holding = 0;
  const cross = (first: number, second: number) =>
    pool.transaction(async (client) => {
      await client.query('UPDATE pair SET n = n + 1 WHERE id = $1', [first]);
      holding++;
      await until('both to hold their first row', () => holding >= 2);
      await client.query('UPDATE pair SET n = n + 1 WHERE id = $1', [second]);
    });
  await Promise.all([cross(1, 2), cross(2, 1)]);
  assert.deepEqual(await pool.query('SELECT n FROM pair'), [{ n: 2 }, { n: 2 }]);
  assert.equal(pool.retries, 1);
});

test('a lock that somebody else holds too long is waited for again, not reported as a fault', { skip }, async (t) => {
  const { historian, url } = await openPostgres(t);
  await historian.ingest(batchOf(rowsFrom(1, 2)));
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  t.after(() => other.end());
  await other.query('BEGIN');
  await other.query('LOCK holdfast.readings IN ACCESS EXCLUSIVE MODE');
  const outcome = historian.ingest(batchOf(rowsFrom(3, 4)));
  const waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'holdfast.readings'::regclass";
  await until('the batch to wait', async () => (await other.query(waiting)).rowCount === 1);
  await other.query('SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted');
  await assert.rejects(outcome, { code: 'historian.io' });
  await other.query('COMMIT');
  assert.equal((await historian.ingest(batchOf(rowsFrom(3, 4)))).stored, 2);
});

test('a server that crashes and comes back has all that was acknowledged, and the same historian goes on', {
  skip,
}, async (t) => {
  const { historian, sql } = await openPostgres(t);
  let last = 0;
  const write = async () => {
    for (let first = 1; first <= 3000; first += 10) {
      await historian.ingest(batchOf(rowsFrom(first, first + 9)));
      last = first + 9;
    }
  };
  const writing = write().then(
    () => undefined,
    (error) => error as { code: string },
  );
  await until('some batches', () => last >= 200);
  await crashPostgres();
  assert.equal((await writing)?.code, 'historian.io');
  const durable = last;
  for (let first = 1; first <= durable + 10; first += 10) await historian.ingest(batchOf(rowsFrom(first, first + 9)));
  assert.equal((await sql('SELECT count(*) AS n FROM holdfast.readings'))[0]?.n, durable + 10);
  const { stored, rows, duplicates } = historian.totals();
  assert.equal(stored, durable + 10);
  assert.equal(rows, stored + duplicates);
  // Only the batch whose COMMIT was under way may have been stored without an answer.
  assert.ok([durable, durable + 10].includes(duplicates), `${duplicates} duplicates after ${durable}`);
});

test('killed in the middle again and again, it has all that it had called durable, in whole batches', {
  skip,
}, async (t) => {
  const { url, sql, historian: first } = await openPostgres(t);
  await first.close();
  let durable = 0;
  for (let round = 1; round <= 4; round++) {
    const child = spawn(process.execPath, ['dist/test/fixtures/ingest-postgres-child.js', url], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    let lines = 0;
    const reader = createInterface(child.stdout);
    reader.on('line', (line) => {
      durable = Number(line);
      if (++lines === 5 + round * 7) child.kill('SIGKILL');
    });
    await Promise.all([once(child, 'exit'), once(reader, 'close')]);
    assert.ok(lines >= 5 + round * 7);
    // The server may still be at the last batch of the client that is gone.
    const sessions = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'holdfast-ingest'";
    await until('the session of the killed one to end', async () => (await sql(sessions)).length === 0);
    const { historian } = await openPostgres(t, { url });
    const [entry] = historian.ledger();
    assert.ok((entry?.last ?? 0) >= durable, `${entry?.last} of ${durable}`);
    assert.deepEqual([entry?.holes, (entry?.last ?? 1) % 10], [[], 0]);
    const [count] = await sql('SELECT count(*) AS n FROM holdfast.readings');
    assert.equal(count?.n, historian.totals().stored);
    assert.equal((await historian.ingest(batchOf(rowsFrom(durable - 9, durable)))).duplicates, 10);
    await historian.close();
  }
});
