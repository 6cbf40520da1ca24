import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { HoldfastError } from '../../src/lib/errors.js';
import type { Seq } from '../../src/model/ids.js';
import { Spool } from '../../src/spool/spool.js';
import { Store } from '../../src/store/store.js';
import { message, openSpool } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

test('callbacks come in the order of submission and every row is there', async (t) => {
  const { store, spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  const order: number[] = [];
  const seqs: number[] = [];
  for (let n = 0; n < 2_000; n++) {
    store.submit([spool.row(message(n))], (error, results, at) => {
      assert.equal(error, null);
      order.push(n);
      seqs.push(results[at] as number);
    });
  }
  await until('all committed', () => order.length === 2_000);
  assert.deepEqual(
    order,
    [...order].sort((a, b) => a - b),
  );
  assert.deepEqual(
    seqs,
    Array.from({ length: 2_000 }, (_, i) => i + 1),
  );
  const rows = await spool.peek(0 as Seq, 5_000, 1e9);
  assert.deepEqual(
    rows.map((row) => Buffer.from(row.payload).toString()),
    Array.from({ length: 2_000 }, (_, n) => `m${n}`),
  );
});

test('a unit that breaks a constraint fails alone; its neighbours in the group are durable', async (t) => {
  const { store, spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  const bad = { ...spool.row(message(1)), args: [null, Buffer.alloc(0), null, 0, null, null, null, 0] };
  const outcomes: (string | null)[] = [];
  const note = (error: HoldfastError | null) => outcomes.push(error?.code ?? null);
  store.submit([spool.row(message(0))], note);
  store.submit([spool.row(message(1)), bad], note);
  store.submit([spool.row(message(2))], note);
  await until('all answered', () => outcomes.length === 3);
  assert.deepEqual(outcomes, [null, 'spool.constraint', null]);
  const rows = await spool.peek(0 as Seq, 10, 1e9);
  assert.deepEqual(
    rows.map((row) => Buffer.from(row.payload).toString()),
    ['m0', 'm2'],
  );
  const { rows: depth, received } = await spool.stats();
  assert.deepEqual([depth, received], [2, 2]);
});

test('a guard that returns 0 skips the rest of its unit, and only that', async (t) => {
  const { store, spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  const nothing = { op: store.operation('spool.acknowledge'), args: [0], guard: true };
  const [guard, skipped] = await store.commit([nothing, spool.row(message(1))]);
  assert.equal(guard, 0);
  assert.ok(Number.isNaN(skipped));
  assert.deepEqual(await store.commit([spool.row(message(2))]), [1]);
});

test('a second process is told that the file is in use', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  await openSpool(t, path);
  const script = `
    import { Store } from '${new URL('../../src/store/store.js', import.meta.url)}';
    import { Spool } from '${new URL('../../src/spool/spool.js', import.meta.url)}';
    await Store.open({ path: ${JSON.stringify(path)}, tables: [Spool.tables], busyTimeoutMs: 50 })
      .then(() => console.log('opened'), (error) => console.log(error.code, error.message, error.hint));`;
  const file = join(tempDir(t), 'second.mjs');
  writeFileSync(file, script);
  const run = spawnSync(process.execPath, [file], { encoding: 'utf8' });
  assert.match(run.stdout, /^spool\.locked .*in use by another process.*one running gateway/);
});

test('a file of a newer version is refused and left as it is', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  const first = await Store.open({ path, tables: [Spool.tables] });
  await first.close();
  const { default: SQLite } = await import('better-sqlite3');
  const db = new SQLite(path);
  db.exec("UPDATE store_meta SET value = 99 WHERE key = 'schema.spool'");
  db.close();
  await assert.rejects(Store.open({ path, tables: [Spool.tables] }), { code: 'spool.version' });
});

test('a full file acknowledges nothing, keeps reading, and goes on once rows have been deleted', async (t) => {
  const { store, spool } = await openSpool(t, join(tempDir(t), 'spool.db'), { pagesMax: 200 });
  const payload = Buffer.alloc(10_000, 7);
  let acknowledged = 0;
  let errors = 0;
  for (let n = 0; n < 200; n++) {
    store.submit([spool.row(message(n, payload))], (error) => {
      if (error) errors++;
      else acknowledged++;
    });
    // One group each, so that some fit and the first that does not is seen.
    await new Promise((resolve) => setImmediate(resolve));
  }
  await until('the file is full', () => store.state === 'full');
  const kept = (await spool.stats()).rows;
  assert.equal(acknowledged, kept, 'what was acknowledged is stored, no more and no less');
  const rows = await spool.peek(0 as Seq, 1_000, 1e9);
  assert.equal(rows.length, kept);
  // The cloud takes rows as they come; in the end everything has been through the file.
  await until('all 200 are acknowledged', async () => {
    const { head, tail } = await spool.stats();
    if (tail >= head) spool.acknowledge(tail);
    return acknowledged === 200;
  });
  assert.equal(errors, 0);
  const { received, acknowledged: taken, rows: left } = await spool.stats();
  assert.equal(received, 200);
  assert.equal(received, taken + left);
});

test('the file shrinks after a drain', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  const { store, spool } = await openSpool(t, path);
  const payload = Buffer.alloc(1_000, 1);
  for (let n = 0; n < 20; n++) await spool.enqueue(Array.from({ length: 1_000 }, (_, i) => message(i, payload)));
  const peak = store.gauge('store.pages');
  spool.acknowledge((await spool.stats()).tail);
  await until('deleted', async () => (await spool.stats()).rows === 0);
  await until('pages went back to the file system', async () => {
    await store.query('spool.about');
    return store.gauge('store.pages') < peak / 2;
  });
  await store.close();
  assert.ok(statSync(path).size < (peak * 4096) / 2);
});
