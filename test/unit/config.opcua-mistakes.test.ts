import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { complaints, configFile } from '../helpers/config-file.js';

const HEAD = 'gateway: { id: g }\nupstream: { url: "mqtt://h" }\nreaders:\n';

const reader = (more: string, tag = 'node: "ns=2;s=Speed"', group = '') =>
  `  - { type: opcua, url: "opc.tcp://plc:4840", ${more}devices: [{ asset: a, groups: [{ every: 1s, ${group}tags: [{ name: t, ${tag} }] }] }] }\n`;

/** What the check says, with line and column and without the file. */
function said(t: TestContext, text: string): string[] {
  return complaints(configFile(t, HEAD + text)).map((line) => line.replace(/^c\.yaml:/, ''));
}

const MISTAKES: readonly (readonly [yaml: string, problem: RegExp])[] = [
  [reader('', 'node: "Speed"'), /^4:\d+: readers\.0\.devices\.0\.groups\.0\.tags\.0\.node: expected a node id like/],
  [reader('', 'node: "ns=2;x=1"'), /tags\.0\.node: expected a node id like/],
  [reader('').replace('opc.tcp:', 'http:'), /readers\.0\.url: expected a URL like opc\.tcp:\/\/HOST:4840/],
  [reader('').replace('//plc', '//me:pw@plc'), /readers\.0\.url: must not contain credentials/],
  [reader('security: { mode: Sign, policy: None }, '), /security\.policy: cannot be None with mode Sign/],
  [reader('security: { policy: Basic256Sha256 }, '), /security\.policy: cannot be Basic256Sha256 with mode None/],
  [reader('security: { mode: Sign, policy: Basic128Rsa15 }, '), /security\.policy: /],
  [reader('password: pw, '), /readers\.0\.password: needs a username/],
  [reader('username: me, '), /readers\.0\.username: needs a password/],
  [reader('userCert: c.pem, '), /readers\.0\.userCert: needs userKey too/],
  [reader('', 'node: "i=1", write: {}'), /tags\.0\.write: needs commands at the reader/],
  [reader('', 'node: "i=1", write: { min: 2, max: 1 }'), /tags\.0\.write: min must not be greater than max/],
  [reader('', 'node: "i=1", unit: "a\\nb"'), /tags\.0\.unit: expected 1 to 64 characters/],
  [reader('', 'node: "i=1"', 'mode: push, '), /groups\.0\.mode: /],
  [reader('', 'node: "i=1"', 'queue: 0, '), /groups\.0\.queue: /],
  [reader('unit: 3, '), /readers\.0\.unit: /],
  [reader('topic: "{area}/{asset}/{metric}", '), /devices\.0\.labels: the topic needs a label area/],
];

for (const [yaml, problem] of MISTAKES)
  test(`an OPC UA reader that is wrong is refused with its place: ${problem.source}`, (t) => {
    const lines = said(t, yaml);
    assert.ok(
      lines.some((line) => problem.test(line)),
      lines.join('\n'),
    );
  });

test('an OPC UA reader that is right is taken as it is', (t) => {
  assert.deepEqual(said(t, reader('', 'node: "nsu=urn:press;g=09087e75-8e5e-499b-954f-f2a9603db28a"')), []);
});

test('the example of a gateway with an OPC UA server is right', () => {
  assert.deepEqual(complaints('config/gateway-opcua.yaml'), []);
});
