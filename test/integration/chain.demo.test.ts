/**
 * The demo and its verdict, which is worth something only if it falls when something is wrong. In one file, so that the
 * runs come one after the other: two that start at the same moment may choose the same ports.
 */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import { type AssetResult, compare, reconcile, type Witnesses } from '../../src/sim/demo/reconcile.js';
import { Program } from '../helpers/program.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

/** The planned run, every process of it, and a drain over a line that was cut. */
const RUN_MS = 60_000;
const OF_FILLER_ENERGY = "series_id = (SELECT id FROM series WHERE asset_id = 'filler' AND metric_name = 'energy')";
const FIRST = `${OF_FILLER_ENERGY} ORDER BY device_ts LIMIT 1`;
const LAST = `${OF_FILLER_ENERGY} ORDER BY device_ts DESC LIMIT 1`;

function edit(file: string, ...statements: string[]): void {
  const db = new Database(file);
  try {
    for (const sql of statements) assert.equal(db.prepare(sql).run().changes, 1, sql);
  } finally {
    db.close();
  }
}

test('the demo cuts the line, and its last line of stdout says that nothing was lost', async (t) => {
  const demo = new Program(t, ['demo', '--for', '12s', '--outage', '4s@3s', '--json']);
  assert.deepEqual(await demo.endsByItself(RUN_MS), { code: 0, signal: null }, demo.stderr);
  assert.equal(demo.lines.length, 1, 'one object');
  const { produced, spooled, delivered, stored, lost, foreign, conflicts, gaps, outages, deepestRows, assets } = demo
    .lines[0] as Record<string, number> & { assets: { asset: string; produced: number; lost: number }[] };
  // Eight tags of four machines, four times a second.
  assert.ok(produced! >= 12 * 32, `${produced} values`);
  assert.deepEqual({ spooled, delivered, stored }, { spooled: produced, delivered: produced, stored: produced });
  assert.deepEqual(
    { lost, foreign, conflicts, gaps, outages },
    { lost: 0, foreign: 0, conflicts: 0, gaps: 0, outages: 1 },
  );
  assert.ok(deepestRows! > 32, `the outage filled the spool with ${deepestRows} rows`);
  assert.deepEqual(
    assets.map(({ asset, lost: of }) => `${asset} ${of}`),
    ['filler 0', 'capper 0', 'labeler 0', 'palletizer 0'],
  );
});

test('a reading that goes missing behind the back of the ingest is found: exit 1', async (t) => {
  const dir = join(tempDir(t), 'demo');
  const demo = new Program(t, ['demo', '--for', '5s', '--dir', dir, '--json']);
  const historian = join(dir, 'ingest', 'historian.db');
  await until('readings', () => existsSync(historian) && demo.running && count(historian) > 64, 20_000);
  edit(
    historian,
    `DELETE FROM readings WHERE (series_id, device_ts) IN (SELECT series_id, device_ts FROM readings WHERE ${FIRST})`,
  );
  assert.deepEqual(await demo.endsByItself(RUN_MS), { code: 1, signal: null }, demo.stderr);
  const { lost, foreign, produced, stored, assets } = demo.lines[0] as Record<string, number> & {
    assets: AssetResult[];
  };
  assert.deepEqual({ lost, foreign, stored }, { lost: 1, foreign: 0, stored: produced! - 1 });
  assert.equal(assets.find(({ asset }) => asset === 'filler')?.lost, 1);

  await t.test('and what the files of that run say follows every single change', (t) => controls(t, dir));
});

/** Changes one thing at a time in a copy of the run's files. */
function controls(t: TestContext, dir: string): void {
  const original = {
    truthFile: join(dir, 'truth.ndjson'),
    historianFile: join(dir, 'ingest', 'historian.db'),
    spoolFile: join(dir, 'gateway', 'spool.db'),
  };
  const found = (change: (files: Witnesses) => void) => {
    const copy = tempDir(t);
    const files = Object.fromEntries(
      Object.entries(original).map(([key, path]) => {
        const to = join(copy, key);
        copyFileSync(path, to);
        return [key, to];
      }),
    ) as unknown as Witnesses;
    change(files);
    const filler = reconcile(files).assets.find(({ asset }) => asset === 'filler')!;
    return { lost: filler.lost, foreign: filler.foreign };
  };
  const inReadings = (set: string) =>
    `UPDATE readings SET ${set} WHERE (series_id, device_ts) IN (SELECT series_id, device_ts FROM readings WHERE ${FIRST})`;
  const spooled = (value: number) =>
    `INSERT INTO spool (topic, payload, flags, asset_id, metric_name, device_ts, enqueued_at)
     VALUES ('plant/filler/energy', CAST('{"ts":1,"value":${value}}' AS BLOB), 0, 'filler', 'energy', 1, 1)`;

  assert.deepEqual(
    found(() => {}),
    { lost: 1, foreign: 0 },
    'unchanged',
  );
  assert.deepEqual(
    found(({ historianFile }) => edit(historianFile, inReadings('value = -1'))),
    { lost: 2, foreign: 1 },
    'altered',
  );
  assert.deepEqual(
    found(({ historianFile }) =>
      edit(
        historianFile,
        `INSERT INTO readings SELECT series_id, device_ts + 1, type, value, quality, source_id, seq FROM readings WHERE ${LAST}`,
      ),
    ),
    { lost: 1, foreign: 1 },
    'there twice',
  );
  assert.deepEqual(
    found(({ spoolFile }) => edit(spoolFile, spooled(-1))),
    { lost: 1, foreign: 1 },
    'waiting and never served',
  );
  const lines = readFileSync(original.truthFile, 'utf8').trimEnd().split('\n');
  const energy = lines.findLastIndex((line) => line.includes('"asset":"filler","metric":"energy"'));
  assert.deepEqual(
    found(({ truthFile }) => writeFileSync(truthFile, `${lines.filter((_, i) => i !== energy).join('\n')}\n`)),
    { lost: 1, foreign: 1 },
    'stored and never served',
  );
}

test('a comparison counts what is missing, altered, twice, foreign or out of order', () => {
  const cases: [truth: string, found: string, missing: number, foreign: number][] = [
    ['1 2 3', '1 2 3', 0, 0],
    ['', '', 0, 0],
    ['1 2 3', '', 3, 0],
    ['', '1', 0, 1],
    ['1 2 3', '1 3', 1, 0],
    ['0 0 0', '0 0', 1, 0],
    ['1 2 3', '1 9 3', 1, 1],
    ['1 2 3', '1 2 2 3', 0, 1],
    ['1 2 3', '1 3 2', 1, 1],
  ];
  const values = (text: string) => (text === '' ? [] : text.split(' '));
  for (const [truth, found, missing, foreign] of cases)
    assert.deepEqual(compare(values(truth), values(found)), { missing, foreign }, `${truth} | ${found}`);
});

function count(historian: string): number {
  const db = new Database(historian, { readonly: true });
  try {
    return db.prepare('SELECT count(*) FROM readings').pluck().get() as number;
  } catch {
    return 0;
  } finally {
    db.close();
  }
}
