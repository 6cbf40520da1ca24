import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { loadGatewayConfig, loadIngestConfig } from '../../src/config/loader.js';
import { ConfigError } from '../../src/config/problem.js';
import { complaints, configFile } from '../helpers/config-file.js';
import { tempDir } from '../helpers/tmp.js';

const CASES: Record<string, { text: string; said: string[] }> = {
  'an empty file': { text: '', said: ['c.yaml: the file is empty'] },
  'nothing but a comment': { text: '# later\n', said: ['c.yaml: the file is empty'] },
  'a list': { text: '- gateway\n', said: ['c.yaml:1:1: expected a map with the settings'] },
  'a text': { text: 'hello\n', said: ['c.yaml:1:1: expected a map with the settings'] },
  'a key twice': {
    text: 'gateway: { id: a }\nupstream: { url: "mqtt://h" }\ngateway: { id: b }\n',
    said: ['c.yaml:3:1: Map keys must be unique'],
  },
  'an open quote': { text: 'gateway:\n  id: "a\n', said: ['c.yaml:3:1: Missing closing "quote'] },
  'a tab as indentation': { text: 'gateway:\n\tid: a\n', said: ['c.yaml:2:1: Tabs are not allowed as indentation'] },
  'two documents': {
    text: 'gateway: { id: a }\n---\ngateway: { id: b }\n',
    said: ['c.yaml:2:1: expected one document, found another one'],
  },
  'an alias without an anchor': {
    text: 'gateway: *there\n',
    said: ['c.yaml:1:10: there is no anchor &there above'],
  },
  'a tag of another program': {
    text: 'gateway:\n  id: !vault a\nupstream: { url: "mqtt://h" }\n',
    said: ['c.yaml:2:7: Unresolved tag: !vault'],
  },
  'YAML 1.1, in which yes is true': {
    text: '%YAML 1.1\n---\ngateway: { id: a }\n',
    said: ['c.yaml:1:1: expected YAML 1.2, found YAML 1.1'],
  },
  'brackets without end': { text: '['.repeat(50_000), said: ['c.yaml: the file is nested too deeply'] },
  'dashes without end': { text: '- '.repeat(50_000), said: ['c.yaml: the file is nested too deeply'] },
  'a binary file': { text: '\uFFFD\0', said: ['c.yaml: is not UTF-8; is it a text file?'] },
};

for (const [name, { text, said }] of Object.entries(CASES))
  test(`${name} is refused`, (t) => {
    const file = configFile(t, text);
    if (name === 'a binary file') writeFileSync(file, Buffer.from([0x53, 0x51, 0xff, 0xfe]));
    assert.deepEqual(complaints(file), said);
  });

test('a file that unfolds without end is refused', (t) => {
  const levels = Array.from({ length: 30 }, (_, i) => `l${i + 1}: &l${i + 1} [*l${i}, *l${i}, *l${i}]`);
  const [line, ...rest] = complaints(configFile(t, ['l0: &l0 [x]', ...levels].join('\n')));
  assert.match(line ?? '', /^c\.yaml: Excessive alias count/);
  assert.deepEqual(rest, []);
});

test('a file that is not there, or a folder, is named', (t) => {
  const dir = tempDir(t);
  assert.deepEqual(complaints(join(dir, 'none.yaml')), ['c.yaml: cannot be read: there is no such file']);
  assert.deepEqual(complaints(dir), ['c.yaml: cannot be read: it is a folder']);
});

test('a file without read permission is named', { skip: process.getuid?.() === 0 && 'root may read all' }, (t) => {
  const file = configFile(t, 'gateway: { id: a }\n');
  chmodSync(file, 0o000);
  assert.deepEqual(complaints(file), ['c.yaml: cannot be read: no permission to read it']);
});

test('the config of the other side is refused as such', (t) => {
  const ingest = configFile(t, 'ingest: { id: i }\nsource: { url: "mqtt://h" }\n');
  const gateway = configFile(t, 'gateway: { id: g }\nupstream: { url: "mqtt://h" }\n');
  const said = (load: () => unknown) => {
    assert.throws(
      load,
      (error) => error instanceof ConfigError && error.exit === 78 && error.code === 'config.invalid',
    );
    try {
      load();
    } catch (error) {
      return (error as ConfigError).problems[0]?.message;
    }
  };
  assert.equal(
    said(() => loadGatewayConfig(ingest)),
    'expected the config of the gateway, found one of the ingest',
  );
  assert.equal(
    said(() => loadIngestConfig(gateway)),
    'expected the config of the ingest, found one of the gateway',
  );
});

test('a wrong config touches nothing but its own file', (t) => {
  const file = configFile(t, 'gateway: { id: a, dataDir: ./data }\nupstream: { url: nowhere }\n');
  mkdirSync(join(dirname(file), 'data'));
  writeFileSync(join(dirname(file), 'data', 'spool.db'), 'backlog');
  assert.equal(complaints(file).length, 1);
  assert.deepEqual(readdirSync(dirname(file)).sort(), ['c.yaml', 'data']);
  assert.deepEqual(readdirSync(join(dirname(file), 'data')), ['spool.db']);
});
