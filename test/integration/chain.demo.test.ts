import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Program } from '../helpers/program.js';

/** The planned run, every process of it, and a drain over a line that was cut. */
const RUN_MS = 60_000;

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
