import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { newHash } from '../../src/broker/password-hash.js';
import { tempDir } from '../helpers/tmp.js';

function holdfast(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, ['dist/src/main.js', ...args], { encoding: 'utf8' });
}

function conf(t: TestContext, text: string): { conf: string; output: string; dir: string } {
  const dir = tempDir(t);
  writeFileSync(join(dir, 'mosquitto.conf'), text);
  return { conf: join(dir, 'mosquitto.conf'), output: join(dir, 'gateway.yaml'), dir };
}

const WHOLE = `# the plant's
listener 1883 127.0.0.1
allow_anonymous false
password_file passwd
acl_file acl
max_packet_size 100000
connection cloud
address 192.0.2.1
remote_username plant
remote_password hunter2
remote_clientid plant-7
notifications false
topic plant/# out 1
`;

test('import writes a config that the check passes, for its owner alone, and tells of every line', async (t) => {
  const { conf: file, output, dir } = conf(t, WHOLE);
  writeFileSync(join(dir, 'passwd'), `alice:${await newHash('alice', 10)}\n`);
  writeFileSync(join(dir, 'acl'), 'user alice\ntopic plant/#\n');
  const { status, stdout, stderr } = holdfast('import', 'mosquitto', file, '-o', output);
  assert.deepEqual([status, stderr], [0, '']);
  assert.doesNotMatch(stdout, /hunter2/);
  const rows = stdout.trimEnd().split('\n');
  assert.equal(rows.at(-1), `${output}: written, 11 kept, 2 changed, 0 not supported`);
  for (const [index, line] of WHOLE.split('\n').entries())
    if (line !== '' && !line.startsWith('#'))
      assert.ok(
        rows.some((row) => row.includes(`${file}:${index + 1} `)),
        line,
      );
  assert.equal(statSync(output).mode & 0o777, 0o600);
  assert.equal(holdfast('check', output).status, 0);
  const text = readFileSync(output, 'utf8');
  assert.ok(text.includes(join(dir, 'passwd')) && text.includes(join(dir, 'acl')));
});

test('import ends with 1 when something is not supported, or a file that is named cannot be used', (t) => {
  const { conf: file, output, dir } = conf(t, `${WHOLE}topic cmd/# in 1\n`);
  writeFileSync(join(dir, 'passwd'), 'alice:$argon2id$v=19$m=47104,t=1,p=1$c2FsdA$aGFzaA\n');
  writeFileSync(join(dir, 'acl'), '');
  const first = holdfast('import', 'mosquitto', file, '-o', output);
  assert.equal(first.status, 1);
  assert.match(first.stdout, /^not supported .*mosquitto\.conf:14 .*topic cmd\/# in 1 .*nothing comes from the cloud/m);
  assert.match(first.stdout, /passwd:1: the salt has 4 bytes/);
  const { notes, problems } = JSON.parse(
    holdfast('import', 'mosquitto', file, '-o', output, '--force', '--json').stdout,
  );
  assert.equal(notes.filter(({ outcome }: { outcome: string }) => outcome === 'unsupported').length, 1);
  const errors = problems.filter(({ severity }: { severity: string }) => severity === 'error');
  assert.deepEqual([errors.length, errors[0].file, errors[0].line], [1, join(dir, 'passwd'), 1]);
});

test('import does not overwrite what is there', (t) => {
  const { conf: file, output } = conf(t, 'listener 1883 127.0.0.1\n');
  writeFileSync(output, 'mine');
  const { status, stderr } = holdfast('import', 'mosquitto', file, '-o', output);
  assert.deepEqual([status, readFileSync(output, 'utf8')], [64, 'mine']);
  assert.match(stderr, /is there already/);
  assert.equal(
    holdfast('import', 'mosquitto', file, '-o', output, '--force', '--upstream', 'mqtt://192.0.2.1').status,
    0,
  );
  assert.notEqual(readFileSync(output, 'utf8'), 'mine');
});

test('import tells of a file that cannot be read', (t) => {
  const { dir, output } = conf(t, '');
  const { status, stderr } = holdfast('import', 'mosquitto', join(dir, 'none.conf'), '-o', output);
  assert.equal(status, 78);
  assert.match(stderr, /none\.conf: cannot be read/);
});
