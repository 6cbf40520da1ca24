import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { loadGatewayConfig } from '../../src/config/loader.js';
import { configFile } from '../helpers/config-file.js';

function holdfast(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, ['dist/src/main.js', ...args], { encoding: 'utf8' });
}

const GOOD = `gateway: { id: line-1 }
broker: { listeners: [{ url: "mqtt://127.0.0.1:1883", anonymous: true }] }
upstream: { url: "mqtts://cloud.example.com", username: u, password: hunter2 }
`;

test('check says ok and what the config is', (t) => {
  const file = configFile(t, GOOD);
  assert.deepEqual(pick(holdfast('check', file)), {
    status: 0,
    stdout: `${file}: ok (gateway line-1: 1 listener, 0 readers, 0 devices, 0 tags, upstream mqtts://cloud.example.com)\n`,
    stderr: '',
  });
  const ingest = holdfast('check', 'config/ingest.yaml');
  assert.equal(ingest.status, 0);
  assert.match(ingest.stdout, /ok \(ingest ingest-1: edge\/\+\/batch from mqtt:\/\/127\.0\.0\.1:1884 into sqlite\)/);
});

test('check prints every problem and ends with 78', (t) => {
  const file = configFile(t, 'gateway: { id: a, dataDri: x }\nupstream: { url: "mqtt://h", linger: 1 }\n');
  const { status, stdout, stderr } = holdfast('check', file);
  assert.equal(status, 78);
  assert.equal(stderr, '');
  assert.deepEqual(stdout.split('\n'), [
    `${file}:1:19: gateway.dataDri: unknown key "dataDri"; did you mean "dataDir"?`,
    `${file}:2:38: upstream.linger: expected a duration with its unit, like 250ms, 5s, 1m, 2h or 1d, found the number 1`,
    `${file}: 2 problems`,
    '',
  ]);
});

test('check passes a config with warnings, and prints them', (t) => {
  const file = configFile(t, GOOD.replace('127.0.0.1', '0.0.0.0'));
  const { status, stdout } = holdfast('check', file);
  assert.equal(status, 0);
  const [warning, verdict] = stdout.split('\n');
  assert.match(warning ?? '', /c\.yaml:2:64: warning: broker\.listeners\.0\.anonymous: anybody who reaches 0\.0\.0\.0/);
  assert.match(verdict ?? '', /: ok, 1 warning \(gateway line-1/);
});

test('check --json is one object with the same exit codes', (t) => {
  const good = configFile(t, GOOD);
  assert.deepEqual(json(holdfast('check', '--json', good)), { status: 0, value: { ok: true, problems: [] } });
  const bad = configFile(t, 'gateway: {}\nupstream: { url: "mqtt://h" }\n');
  assert.deepEqual(json(holdfast('check', '--json', bad)), {
    status: 78,
    value: {
      ok: false,
      problems: [{ file: bad, line: 1, col: 10, path: 'gateway.id', message: 'is required', severity: 'error' }],
    },
  });
  const none = join(dirname(bad), 'none.yaml');
  const message = 'cannot be read: there is no such file';
  assert.deepEqual(json(holdfast('check', '--json', none)), {
    status: 78,
    value: { ok: false, problems: [{ file: none, line: null, col: null, path: '', message, severity: 'error' }] },
  });
});

test('config show prints a config of the same meaning, without its secrets', (t) => {
  const file = configFile(t, GOOD);
  const yaml = holdfast('config', 'show', file);
  const asJson = holdfast('config', 'show', '--json', file);
  assert.equal(yaml.status, 0);
  assert.doesNotMatch(yaml.stdout + yaml.stderr + asJson.stdout + asJson.stderr, /hunter2/);
  assert.deepEqual(JSON.parse(asJson.stdout), parse(yaml.stdout));
  assert.equal(JSON.parse(asJson.stdout).upstream.password, '<redacted>');

  const again = join(dirname(file), 'again.yaml');
  writeFileSync(again, yaml.stdout.replace('<redacted>', 'hunter2'));
  assert.deepEqual(loadGatewayConfig(again), loadGatewayConfig(file));
});

test('config show refuses a wrong config with 78', (t) => {
  const file = configFile(t, 'gateway: {}\nupstream: { url: "mqtt://h" }\n');
  const { status, stdout, stderr } = holdfast('config', 'show', file);
  assert.equal(status, 78);
  assert.equal(stdout, '');
  assert.equal(stderr, `holdfast: the config is not valid\n${file}:1:10: gateway.id: is required\n`);
});

test('config schema prints the schema of the kind that is asked for', () => {
  assert.equal(json(holdfast('config', 'schema')).value.title, 'Holdfast gateway');
  assert.equal(json(holdfast('config', 'schema', 'ingest')).value.title, 'Holdfast ingest');
  assert.equal(holdfast('config', 'schema', 'cloud').status, 64);
  assert.equal(holdfast('check').status, 64);
});

function pick({ status, stdout, stderr }: ReturnType<typeof holdfast>) {
  return { status, stdout, stderr };
}

function json({ status, stdout }: ReturnType<typeof holdfast>) {
  return { status, value: JSON.parse(stdout) };
}
