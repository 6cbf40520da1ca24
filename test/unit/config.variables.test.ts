import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { loadGatewayConfig } from '../../src/config/loader.js';
import { readSecret } from '../../src/config/secret.js';
import { complaints, configFile } from '../helpers/config-file.js';

const MALFORMED = `expected \${NAME} or \${NAME:-default}; a literal \${ is written $\${`;

function env(t: TestContext, values: Readonly<Record<string, string>>): void {
  t.after(() => {
    for (const name of Object.keys(values)) delete process.env[name];
  });
  Object.assign(process.env, values);
}

test('variables are filled into values of every type', (t) => {
  env(t, { HF_ID: 'line-7', HF_ROWS: '250', HF_ANON: 'true', HF_PW: '12345', HF_EMPTY: '' });
  const file = configFile(
    t,
    `gateway: { id: "\${HF_ID}" }
broker: { listeners: [{ url: "mqtt://\${HF_HOST:-127.0.0.1}:\${HF_PORT:-0}", anonymous: "\${HF_ANON}" }] }
bridge: { topics: ["\${HF_EMPTY:-plant}/$\${x}/#"] }
upstream:
  url: mqtt://h
  username: u
  password: \${HF_PW}
  protocolVersion: \${HF_VERSION:-4}
  batchRowsMax: &rows \${HF_ROWS}
  inFlightMax: *rows
`,
  );
  const { gateway, broker, bridge, upstream } = loadGatewayConfig(file);
  assert.equal(gateway.id, 'line-7');
  assert.deepEqual(broker.listeners, [{ url: 'mqtt://127.0.0.1:0', anonymous: true }]);
  assert.deepEqual(bridge.topics, [`plant/\${x}/#`]);
  assert.equal(upstream.protocolVersion, 4);
  assert.deepEqual([upstream.batchRowsMax, upstream.inFlightMax], [250, 250]);
  assert.ok(upstream.password);
  assert.equal(readSecret(upstream.password), '12345');
});

test('an unset or malformed variable is told with its place, once', (t) => {
  const file = configFile(
    t,
    `gateway: { id: "\${HF_UNSET}" }
upstream:
  url: "mqtt://\${HF_HOST"
  batchRowsMax: \${HF_UNSET}
broker: { listeners: [{ url: "\${1x}" }] }
`,
  );
  assert.deepEqual(complaints(file), [
    'c.yaml:1:16: gateway.id: the environment variable HF_UNSET is not set',
    `c.yaml:3:8: upstream.url: ${MALFORMED}`,
    'c.yaml:4:17: upstream.batchRowsMax: the environment variable HF_UNSET is not set',
    `c.yaml:5:30: broker.listeners.0.url: ${MALFORMED}`,
  ]);
});

test('what a variable holds cannot become structure', (t) => {
  env(t, { HF_EVIL: 'a\nweb: { listen: "0.0.0.0:80" } # b', HF_KEY: 'gateway' });
  const file = configFile(
    t,
    `gateway: { id: a }
upstream: { url: "mqtt://h", username: "\${HF_EVIL}" }
\${HF_KEY}: {}
`,
  );
  assert.deepEqual(complaints(file), [`c.yaml:3:1: \${HF_KEY}: unknown key "\${HF_KEY}"`]);
});

test('a number that comes from a variable must still be right, and a quoted one in the file stays a text', (t) => {
  env(t, { HF_UNIT: '256', HF_TEXT: 'many' });
  const file = configFile(
    t,
    `gateway: { id: a }
upstream:
  url: mqtt://h
  inFlightMax: \${HF_TEXT}
  batchRowsMax: "7"
readers:
  - type: modbus
    url: tcp://h
    devices: [{ asset: a, unit: "\${HF_UNIT}", groups: [{ every: 1s, tags: [{ name: t, at: "hr:0", type: u16 }] }] }]
`,
  );
  assert.deepEqual(complaints(file), [
    'c.yaml:4:16: upstream.inFlightMax: expected a number, found the text "many"',
    'c.yaml:5:17: upstream.batchRowsMax: expected a number, found the text "7"',
    'c.yaml:9:33: readers.0.devices.0.unit: must be at most 255, found 256',
  ]);
});
