import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import SQLite from 'better-sqlite3';
import type { Seq } from '../../src/model/ids.js';
import { TALLY_HOUR_MS, TALLY_MODULUS, tallyTerm } from '../../src/model/tally.js';
import { suspect } from '../../src/store/recovery.js';
import { killedSpool, overwrite, payloadsOf } from '../helpers/damage.js';
import { openSpool, reading } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';

const PAGE = 4096;
const ROWS = 6_000;

/** A closed spool of readings; `change` may do to it what no gateway does. */
async function closedSpool(t: TestContext, change?: (db: SQLite.Database) => void): Promise<string> {
  const path = join(tempDir(t), 'spool.db');
  const { store, spool } = await openSpool(t, path);
  await spool.enqueue(Array.from({ length: ROWS }, (_, n) => reading(n)));
  await spool.bury(3 as Seq, 'poison');
  await store.close();
  if (change) {
    const db = new SQLite(path);
    change(db);
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
  }
  return path;
}

/** The leaves of the table `spool`, in order of their place in the file. */
function leavesOf(path: string): number[] {
  const bytes = readFileSync(path);
  const leaves: number[] = [];
  for (let page = 1; page < bytes.length / PAGE; page++) {
    const isLeaf = bytes[page * PAGE] === 0x0d && bytes.readUInt16BE(page * PAGE + 3) > 10;
    if (isLeaf && bytes.indexOf('plant/', page * PAGE) < (page + 1) * PAGE) leaves.push(page);
  }
  return leaves;
}

/** The totals, the tallies and the sequence agree with the rows, as though each had come in by itself. */
function assertCounted(path: string): void {
  const db = new SQLite(path, { readonly: true });
  const rows = db
    .prepare(
      `SELECT seq, asset_id, metric_name, device_ts, length(payload) AS size, 0 AS dead FROM spool UNION ALL
       SELECT seq, asset_id, metric_name, device_ts, length(payload), 1 FROM dead_letters ORDER BY seq`,
    )
    .all() as { seq: number; asset_id: string; metric_name: string; device_ts: number; size: number; dead: number }[];
  const tallies = new Map<string, number[]>();
  for (const { seq, asset_id, metric_name, device_ts } of rows) {
    const hour = Math.floor(device_ts / TALLY_HOUR_MS) * TALLY_HOUR_MS;
    const key = `${asset_id} ${metric_name} ${hour}`;
    const [first = seq, , count = 0, sum = 0] = tallies.get(key) ?? [];
    tallies.set(key, [first, seq, count + 1, (sum + tallyTerm(seq, device_ts - hour)) % TALLY_MODULUS]);
  }
  const written = db
    .prepare("SELECT asset_id || ' ' || metric_name || ' ' || hour, first, last, count, checksum FROM tallies")
    .raw()
    .all() as [string, ...number[]][];
  assert.deepEqual(new Map(written.map(([key, ...tally]) => [key, tally])), tallies);
  const state = db.prepare('SELECT rows, bytes FROM spool_state').raw().get();
  const alive = rows.filter(({ dead }) => dead === 0);
  assert.deepEqual(state, [alive.length, alive.reduce((sum, { size }) => sum + size, 0)]);
  const sequence = db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'spool'").pluck().get();
  assert.equal(sequence, rows.at(-1)?.seq);
  assert.equal(db.prepare('SELECT counted_up_to FROM tallies_state').pluck().get(), sequence);
  db.close();
}

test('rows that have left from the middle leave no hole behind, and every count is exact', async (t) => {
  const path = await closedSpool(t, (db) => {
    const gone = db.prepare('DELETE FROM spool WHERE seq % 7 = 0 AND seq < 3000').run().changes;
    db.prepare('UPDATE spool_state SET rows = rows - ?, dropped = ?').run(gone, gone);
  });
  overwrite(path, (leavesOf(path)[40] as number) * PAGE, Buffer.alloc(PAGE, 0xa5));
  const opened = await openSpool(t, path);
  const { report } = (await opened.spool.damage()) ?? {};
  const stats = await opened.spool.stats();
  const left = ROWS - 1 - Math.floor(2999 / 7);
  assert.ok(report && report.salvaged < left && report.salvaged > left - 200, `${report?.salvaged} of ${left}`);
  assert.equal(report.missing, left - report.salvaged);
  assert.deepEqual([...report.assets].sort(), ['a0', 'a1', 'a2', 'a3']);
  // The dead letter has the first number.
  const { rows, received, dead, head, tail, balanced } = stats;
  assert.deepEqual([rows, dead, received, balanced], [report.salvaged, 1, report.salvaged + 1, true]);
  assert.deepEqual([head, tail], [2, report.salvaged + 1]);
  const values = (await payloadsOf(opened)).map((payload) => JSON.parse(payload).value as number);
  assert.equal(values.length, report.salvaged);
  assert.ok(values.every((value, n) => n === 0 || value > (values[n - 1] as number)));
  assert.deepEqual((await opened.spool.dead(9)).length, 1);
  assert.deepEqual(await opened.spool.enqueue([reading(1)]), [report.salvaged + 2], 'numbers go on behind the rows');
  await opened.store.close();
});

/** Tallies are written late; a row that leaves from the end of the spool makes them so. */
async function countAll({ spool }: Awaited<ReturnType<typeof openSpool>>): Promise<void> {
  const [seq] = await spool.enqueue([reading(1)]);
  await spool.bury(seq as Seq, 'only here to be counted');
}

test('what is counted of salvaged rows is what would have been counted of rows that came one by one', async (t) => {
  const path = await closedSpool(t);
  const leaves = leavesOf(path);
  for (const n of [10, 11, 50]) overwrite(path, (leaves[n] as number) * PAGE, Buffer.alloc(PAGE, 0xa5));
  const opened = await openSpool(t, path);
  assert.ok(opened.store.damage);
  await countAll(opened);
  await opened.store.close();
  assertCounted(path);
});

test('a wrong checksum in a sound page: the row stays behind, is missing, and makes up no series', async (t) => {
  const path = await closedSpool(t, (db) => {
    const spoil = db.prepare("UPDATE spool SET payload = x'00', asset_id = ?, metric_name = ? WHERE seq = ?");
    spoil.run('a0', 'm0', 1_001);
    spoil.run('nobody', 'nothing', 1_002);
  });
  overwrite(path, (leavesOf(path)[60] as number) * PAGE, Buffer.alloc(PAGE, 0xa5));
  const { spool, store } = await openSpool(t, path);
  const { report } = (await spool.damage()) ?? {};
  assert.equal(report?.missing, ROWS - 1 - (report?.salvaged ?? 0));
  assert.deepEqual([...(report?.assets ?? [])].sort(), ['a0', 'a1', 'a2', 'a3']);
  const { rows, unsound } = await spool.read(0 as Seq, ROWS, 1e9);
  assert.deepEqual([rows.length, unsound], [report?.salvaged, []]);
  const values = new Set(rows.map(({ payload }) => JSON.parse(Buffer.from(payload).toString()).value));
  assert.ok(!values.has(1_000) && !values.has(1_001) && values.has(1_002));
  await store.close();
  const db = new SQLite(path, { readonly: true });
  assert.equal(db.prepare("SELECT count(*) FROM tallies WHERE asset_id = 'nobody'").pluck().get(), 0);
  db.close();
});

test('the first page of a spool that has given millions of numbers: the rows behind it are found', async (t) => {
  const given = 5_000_000;
  const path = await closedSpool(t, (db) => {
    db.exec(`UPDATE spool SET seq = seq + ${given}; UPDATE sqlite_sequence SET seq = seq + ${given}`);
  });
  const db = new SQLite(path, { readonly: true });
  const leaf = "SELECT pageno FROM dbstat WHERE name = 'spool' AND pagetype = 'leaf' ORDER BY path LIMIT 1";
  const page = db.prepare(leaf).pluck().get() as number;
  db.close();
  overwrite(path, (page - 1) * PAGE, Buffer.alloc(PAGE, 0xa5));
  const opened = await openSpool(t, path);
  const { report } = (await opened.spool.damage()) ?? {};
  const values = (await payloadsOf(opened)).map((payload) => JSON.parse(payload).value as number);
  const first = values[0] as number;
  assert.ok(first > 3 && first < 200, `from row ${first} on`);
  assert.deepEqual(
    values,
    Array.from({ length: ROWS - first }, (_, n) => first + n),
    'every row behind the page',
  );
  assert.equal(report?.missing, ROWS - 1 - values.length);
});

test('a tree that leads to a page twice: no row is taken twice, and the ones it hides are missing', async (t) => {
  const path = await closedSpool(t);
  const db = new SQLite(path, { readonly: true });
  const root = db.prepare("SELECT rootpage FROM sqlite_master WHERE name = 'spool'").pluck().get() as number;
  db.close();
  const bytes = readFileSync(path);
  const at = (root - 1) * PAGE;
  assert.equal(bytes[at], 0x05, 'an interior page');
  const cell = (n: number) => at + bytes.readUInt16BE(at + 12 + 2 * n);
  bytes.copy(bytes, cell(20), cell(19), cell(19) + 4);
  writeFileSync(path, bytes);
  const opened = await openSpool(t, path);
  assert.ok(opened.store.damage);
  const { report } = (await opened.spool.damage()) ?? {};
  const values = (await payloadsOf(opened)).map((payload) => JSON.parse(payload).value as number);
  assert.equal(values.length, report?.salvaged);
  assert.equal(new Set(values).size, values.length, 'no row twice');
  assert.ok(values.every((value, n) => n === 0 || value > (values[n - 1] as number)));
  assert.ok((report?.missing ?? 0) > 0 && (report?.missing ?? ROWS) < 200, `${report?.missing} missing`);
  assert.equal(report?.missing, ROWS - 1 - values.length);
});

test('the damaged files stay what they were, the log included', async (t) => {
  const killed = await killedSpool(t, 2_000, { perCommit: 100, logPagesMax: 100, payloadBytes: 100 });
  const files = { db: readFileSync(killed.path), wal: readFileSync(killed.wal) };
  suspect(killed.path, 'to have every index looked at');
  overwrite(killed.wal, 32 + 20 * (24 + PAGE) + 500, Buffer.alloc(500, 0xa5));
  files.wal = readFileSync(killed.wal);
  const opened = await openSpool(t, killed.path);
  const folder = opened.store.damage?.folder ?? '';
  assert.equal(dirname(folder), dirname(killed.path));
  assert.ok((await payloadsOf(opened)).length > 500);
  assert.ok(readFileSync(join(folder, 'spool.db')).equals(files.db), 'the file');
  assert.ok(readFileSync(join(folder, 'spool.db-wal')).equals(files.wal), 'the log');
});
