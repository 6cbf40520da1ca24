import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { peer } from '../helpers/peers.js';
import { openRunning } from '../helpers/running.js';
import { scrape } from '../helpers/scrape.js';

const promtool = peer('promtool');
const skip = promtool ? false : 'promtool (Debian package prometheus) is not installed';

function run(args: readonly string[], input = ''): string {
  const { status, stdout, stderr } = spawnSync(promtool!, args, { input, encoding: 'utf8', cwd: 'config' });
  assert.equal(status, 0, `${stdout}${stderr}`);
  return stdout + stderr;
}

test('promtool finds no fault in the names of the metrics', { skip }, async (t) => {
  const { web } = await openRunning(t);
  for (const address of [web.gateway, web.ingest])
    assert.equal(run(['check', 'metrics'], (await scrape(address)).text), '');
});

test('promtool reads the alert rules, and they fire when they should and not before', { skip }, () => {
  assert.match(run(['check', 'rules', 'alerts.yaml']), /SUCCESS: \d+ rules found/);
  assert.match(run(['test', 'rules', 'alerts.test.yaml']), /SUCCESS/);
});
