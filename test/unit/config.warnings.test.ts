import assert from 'node:assert/strict';
import { chmodSync } from 'node:fs';
import { test } from 'node:test';
import { complaints, configFile } from '../helpers/config-file.js';

const HEAD = 'gateway: { id: a }\nupstream: { url: "mqtt://127.0.0.1:1884" }\n';
const DEVICE =
  '[{ asset: filler, groups: [{ every: 1s, tags: [{ name: t, at: "hr:0", type: u16 }, { name: u, at: "hr:1", type: u16 }] }] }]';

test('warned when a listener beyond loopback asks for no password', (t) => {
  const text = `${HEAD}broker:\n  listeners:
    - { url: "mqtt://127.0.0.1:1883", anonymous: true }
    - { url: "mqtt://[::1]:1885", anonymous: true }
    - { url: "mqtt://0.0.0.0:1886", anonymous: true }\n`;
  assert.deepEqual(complaints(configFile(t, text)), [
    'c.yaml:7:48: warning: broker.listeners.2.anonymous: anybody who reaches 0.0.0.0 may publish and subscribe without a password',
  ]);
});

test('warned when a listener lets nobody in', (t) => {
  assert.deepEqual(complaints(configFile(t, `${HEAD}broker: { listeners: [{ url: "mqtt://127.0.0.1:1883" }] }\n`)), [
    'c.yaml:3:30: warning: broker.listeners.0.url: lets nobody in: without anonymous: true there is no way to log in',
  ]);
});

test('warned when a full spool makes clients drop messages', (t) => {
  assert.deepEqual(complaints(configFile(t, `${HEAD}broker: { whenFull: refuse }\n`)), [
    'c.yaml:3:21: warning: broker.whenFull: most clients of MQTT 5 count a refused message as sent and drop it; stall loses nothing',
  ]);
});

test('warned when a password travels unencrypted beyond loopback', (t) => {
  const text = (url: string) => `ingest: { id: i }\nsource: { url: "${url}", username: u, password: { env: P } }\n`;
  assert.deepEqual(complaints(configFile(t, text('mqtt://192.0.2.1'))), [
    'c.yaml:2:16: warning: source.url: the password travels unencrypted; use mqtts://',
  ]);
  for (const url of ['mqtts://192.0.2.1', 'mqtt://127.0.0.1'])
    assert.deepEqual(complaints(configFile(t, text(url))), []);
});

test('warned when a secret stands in a file that others may read', (t) => {
  const text = (password: string) =>
    `gateway: { id: a }\nupstream: { url: "mqtts://h", username: u, password: ${password} }\n`;
  const said = (password: string, mode: number) => {
    const file = configFile(t, text(password));
    chmodSync(file, mode);
    return complaints(file);
  };
  const warning =
    'c.yaml:2:54: warning: upstream.password: the file may be read by others (mode 640); ' +
    'use {file: ...} or {credential: ...}, or chmod 600';
  assert.deepEqual(said('hunter2', 0o640), [warning]);
  assert.deepEqual(said('hunter2', 0o600), []);
  assert.deepEqual(said('{ env: P }', 0o644), []);
  assert.deepEqual(said(`"\${PATH}"`, 0o644), []);
});

test('warned when readings would stay local', (t) => {
  const text = (topics: string) =>
    `${HEAD}bridge: { topics: [${topics}] }\nreaders:\n  - type: modbus\n    url: tcp://h\n    topic: line/{asset}/{metric}\n    devices: ${DEVICE}\n`;
  assert.deepEqual(complaints(configFile(t, text('"plant/#"'))), [
    'c.yaml:7:12: warning: readers.0.topic: not covered by bridge.topics, so these readings stay local: line/filler/t and 1 more',
  ]);
  assert.deepEqual(complaints(configFile(t, text('"line/+/t"'))), [
    'c.yaml:7:12: warning: readers.0.topic: not covered by bridge.topics, so these readings stay local: line/filler/u',
  ]);
  assert.deepEqual(complaints(configFile(t, text('"line/+/t", "line/filler/#"'))), []);
});

test('warned when two readers share a link', (t) => {
  const reader = (asset: string) =>
    `  - type: modbus\n    url: tcp://192.0.2.20:502\n    devices: ${DEVICE.replace('filler', asset)}\n`;
  assert.deepEqual(complaints(configFile(t, `${HEAD}readers:\n${reader('a')}${reader('b')}`)), [
    'c.yaml:8:10: warning: readers.1.url: the same link as readers.0; put the devices together, many PLCs take one connection only',
  ]);
});

test('warned of what a password file, an ACL file and certificates change', (t) => {
  const said = (broker: string) =>
    complaints(configFile(t, `${HEAD}broker: ${broker}\n`)).map((line) =>
      line.replace(/^c\.yaml:3:\d+: warning: broker\./, ''),
    );
  const tls = 'tls: { cert: c, key: k, ca: a, requireCertificate: true, userFromCertificate: true }';
  assert.deepEqual(said('{ listeners: [{ url: "mqtt://127.0.0.1" }], passwordFile: p, aclFile: a }'), []);
  assert.deepEqual(said('{ listeners: [{ url: "mqtt://0.0.0.0" }], passwordFile: p }'), [
    'listeners.0.url: passwords travel unencrypted; use mqtts://',
  ]);
  assert.deepEqual(said('{ listeners: [{ url: "ws://0.0.0.0", anonymous: true }], aclFile: a }'), [
    'listeners.0.anonymous: anybody who reaches 0.0.0.0 may do without a password what the ACL file says',
    'aclFile: its user sections never apply: without passwordFile nobody has a proven name',
  ]);
  assert.deepEqual(said(`{ listeners: [{ url: "mqtts://0.0.0.0", ${tls} }], aclFile: a }`), []);
  assert.deepEqual(said(`{ listeners: [{ url: "mqtts://0.0.0.0", anonymous: true, ${tls} }] }`), [
    'listeners.0.anonymous: has no effect where certificates name the users',
  ]);
});
