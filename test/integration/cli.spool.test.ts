import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Seq } from '../../src/model/ids.js';
import { flipBit, killedSpool, overwrite, payloadsOf } from '../helpers/damage.js';
import { message, openSpool, reading } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';

const MAIN = new URL('../../src/main.js', import.meta.url).pathname;

function holdfast(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, 'spool', ...args], { maxBuffer: 1 << 26 }, (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, out, err }),
    );
  });
}

const lines = (text: string) =>
  text
    .trim()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

test('beside a running gateway that writes all the time: every answer is one of a single moment', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  const { spool, store } = await openSpool(t, path, { logPagesMax: 100 });
  let stop = false;
  const writing = (async () => {
    for (let n = 0; !stop; n++) {
      await spool.enqueue([message(n), message(n), message(n)]);
      if (n % 5 === 0) spool.acknowledge((spool.tail - 10) as Seq);
    }
  })();
  t.after(async () => {
    stop = true;
    await writing;
  });
  for (let round = 0; round < 4; round++) {
    const seen = spool.tail;
    const stat = await holdfast('stat', path, '--json');
    assert.equal(stat.code, 0, stat.err);
    const report = JSON.parse(stat.out);
    assert.ok(report.tail >= seen && report.balanced);
    assert.equal(report.epoch, spool.epoch);
    const verified = await holdfast('verify', path, '--json');
    assert.deepEqual(JSON.parse(verified.out).findings, []);
    const exported = lines((await holdfast('export', path)).out).map(({ seq }) => seq);
    assert.deepEqual(
      exported,
      Array.from({ length: exported.length }, (_, i) => exported[0] + i),
    );
  }
  stop = true;
  await writing;
  assert.equal(store.state, 'open');
  const { code, err } = await holdfast('requeue', path);
  assert.equal(code, 69);
  assert.match(err, /in use by another process/);
});

test('list and export say what a row is, dead letters with their reason', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  const { spool, store } = await openSpool(t, path);
  await spool.enqueue([message(1), reading(2), message(3, Buffer.from([0xff, 0, 1]))]);
  await spool.bury(1 as Seq, 'too-large');
  await store.close();
  const rows = lines((await holdfast('list', path, '--json')).out);
  assert.deepEqual(
    rows.map(({ seq, type, payload, payloadBase64 }) => [seq, type, payload ?? payloadBase64]),
    [
      [2, 'f', JSON.stringify({ ts: 1_790_000_000_002, value: 2 })],
      [3, 'p', '/wAB'],
    ],
  );
  const [letter] = lines((await holdfast('export', path, '--dead')).out);
  assert.deepEqual([letter.seq, letter.reason, letter.payload], [1, 'too-large', 'm1']);
  assert.match((await holdfast('list', path)).out, /plant\/a2\/m2 {2}30 B/);
  assert.match((await holdfast('stat', path)).out, /received 3 = stored 2 \+ acknowledged 0 \+ dropped 0 \+ dead 1/);

  assert.deepEqual(JSON.parse((await holdfast('requeue', path, '--json')).out), { requeued: 1 });
  const again = await openSpool(t, path);
  const stats = await again.spool.stats();
  assert.deepEqual([stats.rows, stats.dead, stats.received, stats.balanced], [3, 0, 3, true]);
  assert.equal(again.spool.previous.aliveAt, rows[1].enqueuedAt, 'no sign of life from the plant');
});

test('verify finds a bad bit in the log, a smashed page, and totals that lie', async (t) => {
  const flipped = await killedSpool(t, 40);
  flipBit(flipped.wal, 32 + 40 * 4120 + 900, 2);
  const first = await holdfast('verify', flipped.path);
  assert.equal(first.code, 1);
  assert.match(first.out, /log is damaged/);

  const smashed = await killedSpool(t, 2_000, { perCommit: 100, logPagesMax: 10, payloadBytes: 100 });
  overwrite(smashed.path, 30 * 4096, Buffer.alloc(4096, 7));
  rmSync(smashed.wal);
  assert.equal((await holdfast('verify', smashed.path)).code, 1);

  const lying = join(tempDir(t, { spoiled: true }), 'spool.db');
  const { spool, store } = await openSpool(t, lying);
  await spool.enqueue([message(1)]);
  await store.close();
  const { default: SQLite } = await import('better-sqlite3');
  const db = new SQLite(lying);
  db.exec('UPDATE spool_state SET rows = 5');
  db.close();
  const { out } = await holdfast('verify', lying);
  assert.match(out, /received 1 is not stored/);
  assert.match(out, /totals say 5 rows, the table has 1/);
});

test('what is in quarantine can be salvaged into another spool, once it can be written', async (t) => {
  const killed = await killedSpool(t, 2_000, { perCommit: 100, logPagesMax: 10, payloadBytes: 100 });
  overwrite(killed.path, 30 * 4096, Buffer.alloc(4096, 7));
  const target = join(tempDir(t), 'spool.db');
  const look = JSON.parse((await holdfast('salvage', killed.path, '--json')).out);
  const done = JSON.parse((await holdfast('salvage', killed.path, '--into', target, '--json')).out);
  assert.deepEqual(done, look);
  assert.ok(look.rows > 1_900);
  const opened = await openSpool(t, target);
  const payloads = await payloadsOf(opened);
  assert.equal(payloads.length, look.rows);
  const known = new Set(killed.payloads);
  assert.ok(payloads.every((payload) => known.has(payload)));
});

test('no file, no database, no number: a clear word and an exit code', async (t) => {
  const nothing = await holdfast('stat', join(tempDir(t), 'none.db'));
  assert.equal(nothing.code, 64);
  const garbage = join(tempDir(t), 'garbage.db');
  writeFileSync(garbage, 'garbage '.repeat(1_000));
  const bad = await holdfast('stat', garbage);
  assert.equal(bad.code, 65);
  assert.match(bad.err, /not a database/);
  assert.equal((await holdfast('list', garbage, '--max', 'many')).code, 64);
});
