/** What of a client's certificate names its user: taken over from Mosquitto as it is there, and refused where it has no effect. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadGatewayConfig } from '../../src/config/loader.js';
import { importMosquitto } from '../../src/config/mosquitto/import.js';
import { complaints, configFile } from '../helpers/config-file.js';
import { tempDir } from '../helpers/tmp.js';

test('the name that a certificate gives is the same one as for Mosquitto', (t) => {
  const listener = (port: number, more: string) =>
    `listener ${port} 127.0.0.1\ncertfile c\nkeyfile k\ncafile a\nrequire_certificate true\n${more}\n`;
  const file = join(tempDir(t), 'mosquitto.conf');
  const conf = [
    listener(1, 'use_subject_as_username true'),
    listener(2, 'use_identity_as_username true'),
    listener(3, 'use_subject_as_username true\nuse_identity_as_username true'),
    listener(4, 'use_subject_as_username false'),
  ];
  writeFileSync(file, conf.join(''));
  const { yaml, notes } = importMosquitto(file, { upstream: 'mqtt://192.0.2.1' });
  const { listeners } = loadGatewayConfig(configFile(t, yaml)).broker;
  assert.deepEqual(
    listeners.map(({ tls }) => [tls?.userFromCertificate, tls?.certificateName]),
    [
      [true, 'subject'],
      [true, 'common-name'],
      [true, 'common-name'],
      [false, 'common-name'],
    ],
  );
  assert.deepEqual(
    notes
      .filter(({ line, outcome }) => line !== null && outcome !== 'kept')
      .map(({ line, message }) => [line, message]),
    [[18, 'has no effect beside use_identity_as_username']],
  );
});

test('a subject without a listener that takes its user from it is a mistake', (t) => {
  const text = `gateway: { id: a }
upstream: { url: "mqtt://h" }
broker:
  listeners:
    - { url: "mqtts://h", tls: { cert: c, key: k, ca: a, requireCertificate: true, certificateName: subject } }
`;
  assert.throws(
    () => loadGatewayConfig(configFile(t, text)),
    /broker\.listeners\.0\.tls\.certificateName: needs userFromCertificate too/,
  );
  const right = text.replace('certificateName', 'userFromCertificate: true, certificateName');
  assert.deepEqual(complaints(configFile(t, right)), []);
});
