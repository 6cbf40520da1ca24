import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';

const linesOf = (file: string) =>
  readFileSync(file, 'utf8')
    .replaceAll('\\\n', ' ')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));

/** All values of a key of a unit file, in order. */
const unit = (key: string) =>
  linesOf('config/holdfast.service')
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1));

test('the image is built on a base that can be replaced and runs as a number that is not root', () => {
  const dockerfile = linesOf('Dockerfile');
  assert.match(dockerfile[0] ?? '', /^ARG NODE_IMAGE=node:20-/);
  const stages = dockerfile.filter((line) => line.startsWith('FROM '));
  assert.ok(stages.length === 2 && stages.every((line) => /^FROM \$\{NODE_IMAGE\}/.test(line)), stages.join());
  const runtime = dockerfile.slice(dockerfile.lastIndexOf(stages[1] as string));
  for (const line of ['USER 10001:10001', 'VOLUME /var/lib/holdfast', 'STOPSIGNAL SIGTERM'])
    assert.ok(runtime.includes(line), line);
});

test('everything that the image copies from the source tree exists and gets past .dockerignore, and nothing else does', () => {
  const [everything, ...allowed] = linesOf('.dockerignore');
  assert.equal(everything, '*');
  const copied = linesOf('Dockerfile')
    .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
    .flatMap((line) => line.split(/\s+/).slice(1, -1));
  for (const path of copied) assert.ok(existsSync(path), path);
  assert.deepEqual(allowed.sort(), [...new Set(copied)].map((path) => `!${path}`).sort());
});

test('the service starts the built program by absolute paths and keeps its data where it may write', () => {
  const [start, ...more] = unit('ExecStart');
  assert.deepEqual(more, []);
  const [node, program, command, flag, config] = (start ?? '').split(' ');
  assert.deepEqual([command, flag], ['gateway', '--config']);
  for (const path of [node, program, config]) assert.match(path ?? '', /^\//);
  assert.ok(existsSync((program ?? '').replace('/opt/holdfast/', '')), `${program} is not what the build makes`);
  assert.deepEqual(unit('WorkingDirectory'), [`/var/lib/${unit('StateDirectory')[0]}`]);
  assert.deepEqual(unit('RestartPreventExitStatus'), ['64 78']);
});

const analyze = peer('systemd-analyze');
const skip = analyze ? false : 'systemd-analyze is not installed';

test('systemd knows every line of the service and calls it well confined', { skip }, (t) => {
  const file = join(tempDir(t), 'holdfast.service');
  const text = readFileSync('config/holdfast.service', 'utf8');
  // Systemd looks whether the program is there.
  writeFileSync(file, text.replace('/usr/bin/node ', `${process.execPath} `));
  const verify = spawnSync(analyze as string, ['verify', '--man=no', file], { encoding: 'utf8' });
  assert.deepEqual([verify.status, verify.stdout, verify.stderr], [0, '', '']);
  // In tenths: 0 is locked up, 100 is bare; a service without any confinement is at 96.
  const security = spawnSync(analyze as string, ['security', '--offline=true', '--threshold=15', file]);
  assert.equal(security.status, 0, security.stdout.toString());
});
