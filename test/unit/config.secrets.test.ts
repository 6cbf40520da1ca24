import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { inspect } from 'node:util';
import { effectiveConfig } from '../../src/config/effective.js';
import { checkConfig, loadGatewayConfig } from '../../src/config/loader.js';
import { readSecret, type Secret } from '../../src/config/secret.js';
import { HoldfastError } from '../../src/lib/errors.js';
import { complaints, configFile } from '../helpers/config-file.js';

const text = (password: string) =>
  `gateway: { id: a }\nupstream: { url: "mqtt://h", username: u, password: ${password} }\n`;

function passwordOf(file: string): Secret {
  const { password } = loadGatewayConfig(file).upstream;
  assert.ok(password);
  return password;
}

function withEnv(t: TestContext, name: string, value: string | undefined): void {
  const before = process.env[name];
  t.after(() => set(before));
  set(value);
  function set(to: string | undefined): void {
    if (to === undefined) delete process.env[name];
    else process.env[name] = to;
  }
}

test('a secret is a text', (t) => {
  assert.equal(readSecret(passwordOf(configFile(t, text('"12345 "')))), '12345 ');
});

test('a secret is in a file beside the config, read at every use, without its line end', (t) => {
  const file = configFile(t, text('{ file: pw }'));
  const secret = passwordOf(file);
  const said = (pattern: RegExp) =>
    assert.throws(
      () => readSecret(secret),
      (error) => error instanceof HoldfastError && error.code === 'config.invalid' && pattern.test(error.message),
    );
  said(/^upstream\.password: the secret cannot be read: .*ENOENT/);
  writeFileSync(join(dirname(file), 'pw'), 'first\n');
  assert.equal(readSecret(secret), 'first');
  writeFileSync(join(dirname(file), 'pw'), ' second \r\n');
  assert.equal(readSecret(secret), ' second ');
  writeFileSync(join(dirname(file), 'pw'), '\n');
  said(/^upstream\.password: .*it is empty/);
  rmSync(join(dirname(file), 'pw'));
  said(/ENOENT/);
});

test('a secret is in the environment', (t) => {
  const secret = passwordOf(configFile(t, text('{ env: HOLDFAST_TEST_PW }')));
  withEnv(t, 'HOLDFAST_TEST_PW', undefined);
  assert.throws(() => readSecret(secret), /upstream\.password: .*HOLDFAST_TEST_PW is not set/);
  process.env.HOLDFAST_TEST_PW = 'hunter2';
  assert.equal(readSecret(secret), 'hunter2');
});

test('a secret is a systemd credential', (t) => {
  const file = configFile(t, text('{ credential: up }'));
  const secret = passwordOf(file);
  withEnv(t, 'CREDENTIALS_DIRECTORY', undefined);
  assert.throws(() => readSecret(secret), /upstream\.password: .*CREDENTIALS_DIRECTORY is not set/);
  process.env.CREDENTIALS_DIRECTORY = dirname(file);
  writeFileSync(join(dirname(file), 'up'), 'hunter2\n');
  assert.equal(readSecret(secret), 'hunter2');
});

test('a wrong secret is told without its value', (t) => {
  const sentence =
    'c.yaml:2:53: upstream.password: expected a text (in quotes if it looks like a number) ' +
    'or one of {file: ...}, {env: ...}, {credential: ...}';
  for (const wrong of ['4711', '{ flie: hunter2 }', '[hunter2]', 'true'])
    assert.deepEqual(complaints(configFile(t, text(wrong))), [sentence]);
  assert.deepEqual(complaints(configFile(t, text('{ credential: ../up }'))), [
    'c.yaml:2:67: upstream.password.credential: expected the name of a credential, without a folder',
  ]);
});

test('a literal secret shows itself nowhere but to its reader', (t) => {
  const checked = checkConfig(configFile(t, text('hunter2')));
  for (const shown of [
    JSON.stringify(checked),
    inspect(checked, { depth: null, showHidden: true }),
    JSON.stringify(effectiveConfig(checked)),
  ])
    assert.doesNotMatch(shown, /hunter2/);
  assert.match(JSON.stringify(effectiveConfig(checked)), /"password":"<redacted>"/);
  assert.equal(readSecret(passwordOf(configFile(t, text('hunter2')))), 'hunter2');
});

test('where a secret is to be found is shown, with its file resolved', (t) => {
  const shown = (password: string) => {
    const file = configFile(t, text(password));
    const { upstream } = effectiveConfig(checkConfig(file)) as { upstream: { password: unknown } };
    return { password: upstream.password, dir: dirname(file) };
  };
  const { password, dir } = shown('{ file: pw }');
  assert.deepEqual(password, { file: join(dir, 'pw') });
  assert.deepEqual(shown('{ env: P }').password, { env: 'P' });
  assert.deepEqual(shown('{ credential: up }').password, { credential: 'up' });
});
