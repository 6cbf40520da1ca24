import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tables } from '../../src/spool/tables.js';
import { ArenaReader } from '../../src/store/arena.js';
import { markClosed, markOpen, migrate } from '../../src/store/database.js';
import { openSound } from '../../src/store/recovery.js';
import { killedSpool, leftovers, quarantines } from '../helpers/damage.js';
import { Random } from '../helpers/random.js';
import { tempDir } from '../helpers/tmp.js';

const ROUNDS = 500;
const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000);

/** What is in the file after a start on it, without a thread of its own: hundreds of starts in seconds. */
function start(path: string) {
  const { db, lock, damage } = openSound({ path }, [tables]);
  markOpen(db, { path });
  migrate(db, tables);
  const owner = tables.open(db);
  const payloads = soundPayloads(owner.queries.peek as (...args: number[]) => ArrayBuffer);
  const { epoch } = db.prepare('SELECT epoch FROM spool_state').get() as { epoch: string };
  const gauges = owner.gauges?.() ?? {};
  markClosed(db);
  db.close();
  lock.close();
  return { payloads, epoch, damage, gauges };
}

/** What would be sent: rows that are what was written. */
function soundPayloads(peek: (...args: number[]) => ArrayBuffer): string[] {
  const reader = new ArenaReader(peek(0, 1_000_000, 1e9));
  const payloads: string[] = [];
  for (let seq = reader.value(); seq !== null; seq = reader.value()) {
    const row = Array.from({ length: 9 }, () => reader.value());
    if (row[8] === 1) payloads.push(String(row[1]));
  }
  return payloads;
}

test(`a log cut off at any byte, ${ROUNDS} times: every start succeeds with an unbroken beginning of the rows`, async (t) => {
  t.diagnostic(`SEED=${SEED}`);
  const random = new Random(SEED);
  const killed = await killedSpool(t, 60, { perCommit: 3 });
  const bytes = statSync(killed.wal).size;
  for (let round = 0; round < ROUNDS; round++) {
    const dir = join(tempDir(t), 'r');
    mkdirSync(dir);
    const path = join(dir, 'spool.db');
    copyFileSync(killed.path, path);
    copyFileSync(killed.wal, `${path}-wal`);
    const cut = random.int(0, bytes);
    truncateSync(`${path}-wal`, cut);
    const { payloads, gauges } = start(path);
    assert.deepEqual(payloads, killed.payloads.slice(0, payloads.length), `SEED=${SEED} round ${round}, cut at ${cut}`);
    assert.equal(gauges.rows, payloads.length);
    assert.deepEqual(leftovers(path), []);
    rmSync(dir, { recursive: true });
  }
});

test('random harm to file and log: every start succeeds, nothing foreign turns up, and the next start is quiet', async (t) => {
  t.diagnostic(`SEED=${SEED}`);
  const random = new Random(SEED);
  const killed = await killedSpool(t, 400, { perCommit: 20, logPagesMax: 20, payloadBytes: 150 });
  const known = new Set(killed.payloads);
  const dir = tempDir(t);
  let damaged = 0;
  for (let round = 0; round < 150; round++) {
    const folder = join(dir, String(round));
    mkdirSync(folder);
    const path = join(folder, 'spool.db');
    copyFileSync(killed.path, path);
    copyFileSync(killed.wal, `${path}-wal`);
    const file = random.chance(0.5) ? path : `${path}-wal`;
    const whole = readFileSync(file);
    const at = random.int(0, whole.length - 1);
    const kind = random.int(0, 3);
    if (kind === 0) whole[at] = (whole[at] as number) ^ (1 << random.int(0, 7));
    else if (kind === 1) whole.fill(0, at, Math.min(at + 512, whole.length));
    else if (kind === 2) for (let n = 0; n < 4096 && at + n < whole.length; n++) whole[at + n] = random.int(0, 255);
    writeFileSync(file, kind === 3 ? whole.subarray(0, at) : whole);
    const what = `SEED=${SEED} round ${round}: kind ${kind} at ${at} of ${file === path ? 'the file' : 'the log'}`;
    const first = start(path);
    if (first.damage) damaged++;
    else assert.equal(first.epoch, killed.epoch, what);
    const foreign = first.payloads.filter((payload) => !known.has(payload));
    assert.deepEqual(foreign, [], what);
    assert.ok((first.gauges.rows ?? 0) - first.payloads.length <= 30, what);
    const second = start(path);
    assert.equal(second.damage, undefined, `${what}: it repairs once`);
    assert.deepEqual(second.payloads, first.payloads, what);
    assert.ok(quarantines(path).length <= 1, what);
    rmSync(folder, { recursive: true });
  }
  assert.ok(damaged > 20, `${damaged} of 150 were noticed as damage`);
});
