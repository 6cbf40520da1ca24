import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Identity } from '../../src/readers/opcua/options.js';
import { until } from '../helpers/wait.js';
import { UaRig, UaServer } from './readers.opcua-rig.js';

const user = (password: string) => (): Identity => ({ kind: 'user', username: 'holdfast', password });

test('a server is talked to when its certificate is trusted, and only then', async (t) => {
  const server = await UaServer.open(t);
  const home = readdirSync(homedir()).sort();
  const rig = new UaRig(t, server.url, {
    mode: 'SignAndEncrypt',
    policy: 'Basic256Sha256',
    identity: user('secret'),
  });
  await until('the refusal', () => rig.status().cause?.startsWith('BadCertificate'), 60_000);
  const hint = await until('the hint', () => rig.warnings.find((line) => line.hint)?.hint);
  assert.match(String(hint), /rejected.*trusted/s);
  assert.equal(
    rig.of('Count').every(({ value }) => value === null),
    true,
  );

  const rejected = join(rig.pkiDir, 'rejected');
  const [name] = await until('the certificate', () => readdirSync(rejected).length > 0 && readdirSync(rejected));
  const trusted = join(rig.pkiDir, 'trusted', 'certs');
  mkdirSync(trusted, { recursive: true });
  renameSync(join(rejected, name as string), join(trusted, name as string));
  await rig.sees('Count', 7);
  assert.equal(rig.status().state, 'online');
  assert.deepEqual(readdirSync(homedir()).sort(), home, 'nothing is written to the home folder');
  await rig.driver.stop();

  for (const policy of ['Aes128_Sha256_RsaOaep', 'Aes256_Sha256_RsaPss'] as const) {
    const other = new UaRig(t, server.url, { mode: 'Sign', policy, identity: user('secret'), pkiDir: rig.pkiDir });
    await other.sees('Count', 7);
    await other.driver.stop();
  }

  // Any certificate will do for a user of this server.
  const certificate = (): Identity => ({
    kind: 'certificate',
    cert: join(rig.pkiDir, 'own', 'certs', 'holdfast.pem'),
    key: join(rig.pkiDir, 'own', 'private', 'private_key.pem'),
  });
  const byCertificate = new UaRig(t, server.url, {
    mode: 'SignAndEncrypt',
    policy: 'Basic256Sha256',
    identity: certificate,
    pkiDir: rig.pkiDir,
  });
  await byCertificate.sees('Count', 7);
  await byCertificate.driver.stop();

  const wrong = new UaRig(t, server.url, {
    mode: 'Sign',
    policy: 'Basic256Sha256',
    identity: user('no'),
    pkiDir: rig.pkiDir,
  });
  await until(
    'the refusal of the password',
    () => /BadUserAccessDenied|BadIdentityToken/.test(wrong.status().cause ?? ''),
    60_000,
  );
});
