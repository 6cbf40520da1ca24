import assert from 'node:assert/strict';
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { flipBit, killedSpool, leftovers, overwrite, payloadsOf, quarantines } from '../helpers/damage.js';
import { message, openSpool } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';

const PAGE = 4096;
const FRAME = 24 + PAGE;

test('a spool whose process was killed is sound: nothing moves, the epoch stays', async (t) => {
  const killed = await killedSpool(t, 50);
  const opened = await openSpool(t, killed.path);
  assert.equal(opened.store.damage, undefined);
  assert.equal(opened.spool.epoch, killed.epoch);
  assert.deepEqual(await payloadsOf(opened), killed.payloads);
  assert.deepEqual(quarantines(killed.path), []);
  assert.equal(await opened.spool.damage(), undefined);
});

test('a file that is not a database: a new one takes its place, the old one is kept, the gap is noted', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  const garbage = Buffer.alloc(8192, 'garbage ');
  writeFileSync(path, garbage);
  const opened = await openSpool(t, path);
  assert.match(opened.store.damage?.problem ?? '', /not a database/);
  assert.deepEqual(quarantines(path), [['spool.db']]);
  assert.deepEqual(readFileSync(join(opened.store.damage?.folder ?? '', 'spool.db')), garbage);
  const damage = await opened.spool.damage();
  assert.equal(damage?.report.missing, null);
  assert.deepEqual(leftovers(path), []);
  await opened.spool.enqueue([message(1)]);
  await opened.spool.tellDamage(damage?.id as number, []);
  await opened.store.close();

  const again = await openSpool(t, path);
  assert.equal(again.store.damage, undefined, 'the next start has nothing to repair');
  assert.equal(again.spool.epoch, opened.spool.epoch);
  assert.equal(await again.spool.damage(), undefined);
  assert.deepEqual(await payloadsOf(again), ['m1']);
});

test('a database whose log has been taken away is not believed', async (t) => {
  const killed = await killedSpool(t, 410, { logPagesMax: 100 });
  rmSync(killed.wal);
  const opened = await openSpool(t, killed.path);
  assert.match(opened.store.damage?.problem ?? '', /log is missing/);
  assert.notEqual(opened.spool.epoch, killed.epoch, 'its numbers have been given before');
  const saved = await payloadsOf(opened);
  assert.ok(saved.length > 0 && saved.length < 410, `${saved.length} rows`);
  assert.deepEqual(saved, killed.payloads.slice(0, saved.length));
  const { report } = (await opened.spool.damage()) ?? {};
  assert.equal(report?.missing, null);
  assert.equal(report?.epoch, killed.epoch);
  assert.equal(report?.salvaged, saved.length);
  assert.ok((report?.from ?? 0) <= (report?.to ?? 0));
});

test('a database that was closed in order has no log and needs none', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  const first = await openSpool(t, path);
  await first.spool.enqueue([message(1)]);
  await first.store.close();
  const second = await openSpool(t, path);
  assert.equal(second.store.damage, undefined);
  assert.deepEqual(await payloadsOf(second), ['m1']);
});

test('a log without its database, and a database emptied beside its log', async (t) => {
  for (const harm of [(path: string) => rmSync(path), (path: string) => truncateSync(path, 0)]) {
    const killed = await killedSpool(t, 20);
    harm(killed.path);
    const opened = await openSpool(t, killed.path);
    assert.match(opened.store.damage?.problem ?? '', /empty or gone/);
    assert.deepEqual(quarantines(killed.path), [['spool.db', 'spool.db-wal']]);
    assert.deepEqual(await opened.spool.enqueue([message(1)]), [1]);
  }
});

test('one flipped bit in the log: what SQLite would drop silently is noticed', async (t) => {
  const killed = await killedSpool(t, 60);
  const frames = Math.floor((readFileSync(killed.wal).length - 32) / FRAME);
  flipBit(killed.wal, 32 + Math.floor(frames / 2) * FRAME + 24 + 2_000, 3);
  const opened = await openSpool(t, killed.path);
  assert.match(opened.store.damage?.problem ?? '', /log is damaged/);
  assert.notEqual(opened.spool.epoch, killed.epoch);
  const saved = await payloadsOf(opened);
  assert.ok(saved.length > 10 && saved.length < 60);
  assert.deepEqual(saved, killed.payloads.slice(0, saved.length));
  assert.equal((await opened.spool.damage())?.report.missing, null);
  assert.deepEqual(quarantines(killed.path), [['spool.db', 'spool.db-wal']]);
});

test("a flipped bit in the log's header, too", async (t) => {
  for (const at of [2, 9, 17, 21, 27]) {
    const killed = await killedSpool(t, 30);
    flipBit(killed.wal, at, 5);
    const opened = await openSpool(t, killed.path);
    assert.match(opened.store.damage?.problem ?? '', /log/, `byte ${at}`);
  }
});

test('smashed pages: every readable row is saved in order, the rest is counted exactly', async (t) => {
  const killed = await killedSpool(t, 4_000, { perCommit: 100, logPagesMax: 10, payloadBytes: 200 });
  const bytes = readFileSync(killed.path);
  const leaves: number[] = [];
  for (let page = 2; page < bytes.length / PAGE - 2; page++) if (bytes[page * PAGE] === 0x0d) leaves.push(page);
  const bad = [20, 21, 60, 100, 140].map((n) => leaves[n] as number);
  for (const page of bad) overwrite(killed.path, page * PAGE, Buffer.alloc(PAGE, 0xa5));
  const started = performance.now();
  const opened = await openSpool(t, killed.path);
  assert.ok(performance.now() - started < 5_000, 'a gateway starts within seconds');
  const saved = await payloadsOf(opened);
  assert.ok(saved.length > 3_800 && saved.length < 4_000, `${saved.length} rows`);
  const known = new Set(killed.payloads);
  assert.ok(saved.every((payload) => known.has(payload)));
  assert.deepEqual(
    saved.map((payload) => Number.parseInt(payload.slice(1), 10)),
    saved.map((payload) => Number.parseInt(payload.slice(1), 10)).sort((a, b) => a - b),
  );
  const { report } = (await opened.spool.damage()) ?? {};
  assert.equal(report?.missing, 4_000 - saved.length);
  const stats = await opened.spool.stats();
  assert.deepEqual([stats.rows, stats.received, stats.balanced], [saved.length, saved.length, true]);
  assert.equal(stats.head, 1);
  assert.equal(stats.tail, saved.length);
});

test('the page with the schema is gone', async (t) => {
  const killed = await killedSpool(t, 500, { perCommit: 100, logPagesMax: 10 });
  overwrite(killed.path, 0, Buffer.alloc(PAGE));
  // Otherwise the log may have the page.
  rmSync(killed.wal);
  const opened = await openSpool(t, killed.path);
  assert.match(opened.store.damage?.problem ?? '', /not a database/);
  assert.deepEqual(await opened.spool.enqueue([message(1)]), [1]);
  assert.equal(quarantines(killed.path).length, 1);
});

test('the schema itself is smashed behind a sound header', async (t) => {
  const killed = await killedSpool(t, 500, { perCommit: 100, logPagesMax: 10 });
  overwrite(killed.path, 100, Buffer.alloc(PAGE - 100, 0x5a));
  rmSync(killed.wal);
  const opened = await openSpool(t, killed.path);
  assert.ok(opened.store.damage);
  assert.deepEqual(await opened.spool.enqueue([message(1)]), [1]);
  assert.equal((await opened.spool.damage())?.report.missing, null);
});

test('a start that was cut short in the middle of a repair is finished by the next one', async (t) => {
  const killed = await killedSpool(t, 60);
  const frames = Math.floor((readFileSync(killed.wal).length - 32) / FRAME);
  flipBit(killed.wal, 32 + Math.floor(frames / 2) * FRAME + 500, 1);
  const files = { db: readFileSync(killed.path), wal: readFileSync(killed.wal) };
  const first = await openSpool(t, killed.path);
  const expected = await payloadsOf(first);
  const mark = JSON.stringify(first.store.damage);
  await first.store.close();

  // As after a crash between the two renames: the log has moved, the file has not.
  const path = join(tempDir(t), 'spool.db');
  const folder = join(dirname(path), 'quarantine-x');
  writeFileSync(path, files.db);
  writeFileSync(`${path}-quarantine`, mark.replace(/"folder":"[^"]*"/, `"folder":${JSON.stringify(folder)}`));
  const { mkdirSync } = await import('node:fs');
  mkdirSync(folder);
  writeFileSync(join(folder, 'spool.db-wal'), files.wal);
  writeFileSync(`${path}-fresh`, 'half a file');
  const second = await openSpool(t, path);
  assert.deepEqual(await payloadsOf(second), expected);
  assert.deepEqual(quarantines(path), [['spool.db', 'spool.db-wal']]);
  assert.deepEqual(leftovers(path), []);
});

test('a repair that was finished but for its mark is not done again', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  writeFileSync(path, 'this is not a database at all');
  const first = await openSpool(t, path);
  await first.spool.enqueue([message(1)]);
  await first.store.close();
  writeFileSync(`${path}-quarantine`, JSON.stringify(first.store.damage));
  const second = await openSpool(t, path);
  assert.equal(second.spool.epoch, first.spool.epoch);
  assert.deepEqual(await payloadsOf(second), ['m1']);
  assert.deepEqual(leftovers(path), []);
});
