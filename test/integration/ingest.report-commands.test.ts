import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import type { Millis, Seq } from '../../src/model/ids.js';
import { batchOf } from '../helpers/batches.js';
import { configFile } from '../helpers/config-file.js';
import { openHistorian } from '../helpers/historian.js';
import { gapRow, T0 } from '../helpers/rows.js';
import { openSpool } from '../helpers/spool.js';
import { tallied } from '../helpers/tallies.js';
import { tempDir } from '../helpers/tmp.js';

const WINDOW = ['--from', '2026-09-21T13:00Z', '--to', '2026-09-22'];

async function holdfast(...args: string[]) {
  const child = spawn(process.execPath, ['dist/src/main.js', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { out, err, code, lines: out.trimEnd().split('\n') };
}

/** An ingest's config, and its historian, which stays open as if the ingest were running. */
async function setUp(t: TestContext) {
  const path = join(tempDir(t), 'historian.db');
  const { historian } = await openHistorian(t, { path });
  const config = configFile(
    t,
    `ingest: { id: i }\nsource: { url: "mqtt://127.0.0.1:1" }\nhistorian: { path: ${JSON.stringify(path)} }\n`,
  );
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue(Array.from({ length: 40 }, (_, n) => tallied(n + 1)));
  await spool.tally(Date.now() as Millis, true);
  return { historian, config, rows: await spool.peek(0 as Seq, 1000, 1 << 20) };
}

test('holdfast reconcile says complete with exit 0, and what is missing with exit 1', async (t) => {
  const { historian, config, rows } = await setUp(t);
  await historian.ingest(batchOf(rows.filter(({ seq }) => seq !== 21)));
  const found = await holdfast('reconcile', '--config', config, ...WINDOW);
  assert.equal(found.code, 1, found.err);
  assert.match(found.out, /T15:00:00Z {2}a1 {2}INCOMPLETE {2}2 readings of 1 metrics from line-1/);
  assert.match(found.out, /^ {4}m1: 1 of 2 missing; seqs that have not arrived: 21$/m);
  assert.match(found.lines.at(-1) ?? '', /^30 readings counted: 1 missing, 0 extra; 14 metric hours complete, 1 not$/);
  const other = await holdfast('reconcile', '--config', config, ...WINDOW, '--asset', 'a2');
  assert.equal(other.code, 0, other.out);
  assert.doesNotMatch(other.out, /have not arrived/);

  await historian.ingest(batchOf(rows));
  const whole = await holdfast('reconcile', '--config', config, ...WINDOW, '--json');
  assert.equal(whole.code, 0, whole.out);
  assert.deepEqual(JSON.parse(whole.lines.at(-1) ?? '').totals, {
    complete: 15,
    findings: 0,
    uncounted: 0,
    expected: 30,
    missing: 0,
    extra: 0,
  });
});

test('holdfast gaps lists gaps and holes with their state', async (t) => {
  const { historian, config, rows } = await setUp(t);
  const none = await holdfast('gaps', '--config', config);
  assert.deepEqual([none.code, none.out], [0, 'no gaps, no silent devices and no holes\n']);
  const gap = { from: T0 as Millis, to: (T0 + 60_000) as Millis, reason: 'device-unreachable', count: 12 };
  await historian.ingest(batchOf([...rows.filter(({ seq }) => seq !== 21), gapRow(100, 'press', null, gap)]));
  const found = await holdfast('gaps', '--config', config, ...WINDOW);
  assert.match(found.out, /^open {4}gap {3}press {2}2026-09-21T\S+ to \S+ {2}device-unreachable, 12 readings$/m);
  assert.match(found.out, /^(open|late) +hole {2}line-1\/e1 {2}seqs 21, noticed/m);
  const json = await holdfast('gaps', '--config', config, ...WINDOW, '--asset', 'press', '--json');
  assert.deepEqual(
    json.lines.map((line) => JSON.parse(line)).map(({ kind, state, count }) => [kind, state, count]),
    [['gap', 'open', 12]],
  );
});

test('holdfast backfill plans, and does it next to an ingest', async (t) => {
  const { historian, config, rows } = await setUp(t);
  await historian.ingest(batchOf(rows));
  const plan = await holdfast('backfill', '--config', config, '--plan');
  assert.match(
    plan.out,
    /^15 hours of 15 series, from 2026-09-21T\S+ to \S+, in 1 units$|more are not over yet$/m,
    plan.err,
  );
  assert.match(plan.out, /^a0: gap \S+ (h|min), \S+ to \S+: \d+ windows, \d+ rows, \d+ hourly buckets$/m);
  const halves = await holdfast('backfill', '--config', config, '--plan', '--window', '30m', '--json');
  for (const { from, to, windows } of JSON.parse(halves.out).devices)
    assert.equal(windows, (to - from) / (30 * 60_000));
  assert.equal((await holdfast('backfill', '--config', config)).code, 64);
  assert.equal((await holdfast('backfill', '--config', config, '--plan', '--window', '0m')).code, 64);
  const { hours } = await historian.rollups.plan(Date.now() as Millis);
  const run = await holdfast('backfill', '--config', config, '--run', '--json');
  assert.equal(run.code, 0, run.err);
  assert.equal(
    run.lines.filter(Boolean).reduce((sum, line) => sum + JSON.parse(line).hours, 0),
    hours,
  );
  assert.equal((await historian.rollups.plan(Date.now() as Millis)).hours, 0);
});

test('a time that is none, an empty window and a store that is not there are told as such', async (t) => {
  const { config } = await setUp(t);
  assert.equal((await holdfast('reconcile', '--config', config, '--from', 'yesterday')).code, 64);
  assert.equal((await holdfast('reconcile', '--config', config, '--from', '1h', '--to', '2h')).code, 64);
  const empty = configFile(t, 'ingest: { id: i }\nsource: { url: "mqtt://127.0.0.1:1" }\n');
  const { code, err } = await holdfast('gaps', '--config', empty);
  assert.deepEqual([code, /cannot be read/.test(err)], [74, true]);
});
