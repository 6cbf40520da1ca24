import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import { type GatewayConfig, gatewaySchema } from '../../src/config/gateway-schema.js';
import { loadGatewayConfig } from '../../src/config/loader.js';
import { type ImportOptions, importMosquitto } from '../../src/config/mosquitto/import.js';
import { readSecret } from '../../src/config/secret.js';
import { complaints, configFile } from '../helpers/config-file.js';
import { tempDir } from '../helpers/tmp.js';

interface Result {
  /** As it takes effect. */
  readonly config: GatewayConfig;
  /** `line outcome message`, without lines that are kept, and without the note about topics that always comes. */
  readonly remarks: string[];
  readonly warnings: string[];
}

function run(t: TestContext, conf: string, options: ImportOptions = {}, included: Record<string, string> = {}): Result {
  const dir = tempDir(t);
  const file = join(dir, 'mosquitto.conf');
  mkdirSync(join(dir, 'conf.d'));
  for (const [name, text] of Object.entries(included)) writeFileSync(join(dir, 'conf.d', name), text);
  writeFileSync(file, conf.replaceAll('DIR', dir));
  const { yaml, notes } = importMosquitto(file, options);
  const lines = conf.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#')).length;
  assert.ok(notes.filter(({ line }) => line !== null).length >= lines, 'every line has a note');
  const output = configFile(t, yaml);
  const name = (path: string | null) => (path === file ? '' : path === null ? '-' : path.replace(`${dir}/`, ''));
  return {
    config: loadGatewayConfig(output),
    remarks: notes
      .filter(({ outcome, directive }) => outcome !== 'kept' && directive !== '(no limit of topics)')
      .map(({ file: at, line, outcome, message }) => `${name(at)}${line ?? ''} ${outcome}: ${message}`),
    warnings: complaints(output),
  };
}

const NO_UPSTREAM = '- changed: upstream.url is mqtts://cloud.example.com:8883: put your own there, or use --upstream';
const NO_SIZE = '- changed: broker.packetBytesMax 2000000B; Mosquitto up to 2.0 takes any size';

test('nothing at all: for its own machine, and open to it', (t) => {
  const { config, remarks, warnings } = run(t, '# nothing\n');
  assert.deepEqual(config.broker.listeners, [{ url: 'mqtt://127.0.0.1:1883', anonymous: true }]);
  assert.deepEqual(remarks, [NO_SIZE, NO_UPSTREAM]);
  assert.deepEqual(warnings, []);
  assert.deepEqual([config.gateway.id, config.broker.sessionExpiryMax], ['gateway-1', 3650 * 86_400_000]);
});

test("Debian's default with a folder of files, in the order of their names", (t) => {
  const conf = `pid_file /run/mosquitto/mosquitto.pid
persistence true
persistence_location /var/lib/mosquitto/
log_dest file /var/log/mosquitto/mosquitto.log
include_dir DIR/conf.d
`;
  const { config, remarks } = run(
    t,
    conf,
    { id: 'line-7', upstream: 'mqtt://192.0.2.1' },
    {
      'b.conf': 'allow_anonymous false\nmax_packet_size 5000\n',
      'a.conf': 'listener 1884\nallow_anonymous true\nmax_packet_size 4000\ninclude_dir /elsewhere\n',
      'B.conf': 'password_file /etc/mosquitto/passwd\nacl_file acls\n',
      'c.txt': 'nonsense\n',
      '.d.conf': 'nonsense\n',
    },
  );
  assert.deepEqual(config.broker.listeners, [{ url: 'mqtt://0.0.0.0:1884', anonymous: false }]);
  assert.deepEqual([config.broker.packetBytesMax, config.broker.passwordFile], [5000, '/etc/mosquitto/passwd']);
  assert.match(config.broker.aclFile ?? '', /\/conf\.d\/acls$/);
  assert.deepEqual([config.gateway.id, config.upstream.url], ['line-7', 'mqtt://192.0.2.1']);
  assert.deepEqual(
    remarks.map((remark) => remark.split(':')[0]),
    ['1 changed', '2 changed', '3 changed', '4 changed', 'conf.d/a.conf1 changed'],
  );
});

test('listeners: addresses, TLS, certificates as users, WebSocket', (t) => {
  const { config, remarks, warnings } = run(
    t,
    `allow_anonymous false
password_file /etc/mosquitto/passwd
listener 1883 127.0.0.1
listener 1884 ::1
listener 8883 192.0.2.5
certfile /c/server.pem
keyfile /c/server.key
cafile /c/ca.pem
crlfile /c/ca.crl
require_certificate true
use_identity_as_username true
tls_version tlsv1.3
listener 9443 plant.example.com
protocol websockets
certfile server.pem
keyfile server.key
cafile /c/chain.pem
tls_version tlsv1.1
listener 1885
socket_domain ipv6
`,
    { upstream: 'mqtt://192.0.2.1' },
  );
  const [first, second, third, fourth, fifth] = config.broker.listeners;
  assert.deepEqual(first, { url: 'mqtt://127.0.0.1:1883', anonymous: false });
  assert.equal(second?.url, 'mqtt://[::1]:1884');
  assert.deepEqual(third, {
    url: 'mqtts://192.0.2.5:8883',
    anonymous: false,
    tls: {
      cert: '/c/server.pem',
      key: '/c/server.key',
      ca: '/c/ca.pem',
      crl: '/c/ca.crl',
      requireCertificate: true,
      userFromCertificate: true,
      certificateName: 'common-name',
      minVersion: 'TLSv1.3',
    },
  });
  assert.equal(fourth?.url, 'wss://plant.example.com:9443');
  assert.match(fourth?.tls?.cert ?? '', /^\/.+\/server\.pem$/);
  assert.equal(fourth?.tls?.requireCertificate, false);
  assert.equal(fifth?.url, 'mqtt://[::]:1885');
  assert.deepEqual(remarks, [
    '14 changed: ws://; of web pages only those of the same host may connect, see origins',
    '18 changed: TLS 1.2 is the oldest that is accepted',
    NO_SIZE,
  ]);
  assert.deepEqual(warnings, [
    'c.yaml:22:12: warning: broker.listeners.4.url: passwords travel unencrypted; use mqtts://',
  ]);
});

test('web pages that may connect, and the longest keepalive', (t) => {
  const { config, remarks } = run(
    t,
    `max_keepalive 600
listener 9001 127.0.0.1
protocol websockets
websockets_origin http://hmi.plant:8080
websockets_origin https://hmi.plant
listener 1883 127.0.0.1
websockets_origin http://hmi.plant
`,
    { upstream: 'mqtt://192.0.2.1' },
  );
  const [web, plain] = config.broker.listeners;
  assert.deepEqual(web?.origins, ['http://hmi.plant:8080', 'https://hmi.plant']);
  assert.deepEqual([plain?.origins, config.broker.keepaliveMax], [undefined, 600_000]);
  assert.deepEqual(remarks, [
    '1 changed: broker.keepaliveMax 600s; clients of MQTT 5 are told, others keep theirs',
    '7 unsupported: has an effect with protocol websockets only',
    NO_SIZE,
  ]);
});

test('a listener that would be more open here is left out', (t) => {
  const { config, remarks } = run(
    t,
    `allow_anonymous true
listener 1883 127.0.0.1
listener 1884
mount_point line/
listener 1885
psk_hint x
listener 1886
certfile c
keyfile k
require_certificate true
capath /certs
listener 1887
certfile c
keyfile k
use_identity_as_username true
listener 0 /run/mosquitto.sock
listener 1888
use_subject_as_username true
listener 1889
bind_interface eth1
listener 1890
protocol http_api
`,
    { upstream: 'mqtt://192.0.2.1' },
  );
  assert.deepEqual(
    config.broker.listeners.map(({ url }) => url),
    ['mqtt://127.0.0.1:1883', 'mqtt://127.0.0.1:1889'],
  );
  const unsupported = remarks
    .filter((remark) => remark.includes('unsupported'))
    .map((remark) => Number.parseInt(remark, 10));
  assert.deepEqual([...new Set(unsupported)], [3, 4, 5, 6, 7, 10, 11, 12, 15, 16, 17, 18, 20, 21, 22]);
});

test('what a plugin decides does not become free for all', (t) => {
  for (const plugin of ['plugin /usr/lib/mosquitto_dynamic_security.so', 'auth_plugin /usr/lib/go-auth.so']) {
    const { config, remarks } = run(t, `${plugin}\nplugin_opt_x y\nlistener 1883\nallow_anonymous true\n`);
    assert.deepEqual(config.broker.listeners, []);
    assert.match(remarks[0] ?? '', /^1 unsupported: what the plugin decides would be open to everybody/);
  }
});

test("the file plugins of Mosquitto 2.1 are its files, and its storage is the spool's", (t) => {
  const { config, remarks } = run(
    t,
    `plugin /usr/lib/mosquitto_password_file.so
plugin_opt_password_file /etc/passwd
plugin /usr/lib/mosquitto_acl_file.so
plugin_opt_acl_file /etc/acl
plugin /usr/lib/mosquitto_persist_sqlite.so
listener 1883
`,
    { upstream: 'mqtt://192.0.2.1' },
  );
  assert.deepEqual([config.broker.passwordFile, config.broker.aclFile], ['/etc/passwd', '/etc/acl']);
  assert.equal(config.broker.listeners.length, 1);
  assert.deepEqual(
    remarks.map((remark) => remark.split(':')[0]),
    ['5 changed', '6 changed', '- changed'],
  );
});

test('settings by listener: those that share their files are taken, others left out', (t) => {
  const { config, remarks } = run(
    t,
    `per_listener_settings true
listener 1883 127.0.0.1
allow_anonymous true
listener 1884 127.0.0.1
password_file /p
acl_file /a
listener 1885 127.0.0.1
password_file /p
acl_file /other
`,
    { upstream: 'mqtt://192.0.2.1' },
  );
  assert.deepEqual(config.broker.listeners, [
    { url: 'mqtt://127.0.0.1:1883', anonymous: true },
    { url: 'mqtt://127.0.0.1:1884', anonymous: false },
  ]);
  assert.deepEqual([config.broker.passwordFile, config.broker.aclFile], ['/p', '/a']);
  assert.ok(remarks.includes('9 unsupported: there is one such file for all listeners'));
  assert.ok(remarks.includes('7 unsupported: its files are not those of all listeners, so it is left out'));
});

test('a bridge becomes the upstream, with what goes out', (t) => {
  const { config, remarks } = run(
    t,
    `connection to the cloud
address broker.example.com:8883 second.example.com
bridge_cafile /c/ca.pem
bridge_certfile /c/client.pem
bridge_keyfile /c/client.key
bridge_protocol_version mqttv50
remote_clientid plant-7
remote_username plant
remote_password s3cr$\{et}"
topic plant/# out 1
topic cmd/# in 1
topic "with blanks/#" out 0 "" site/
topic state both 2 line/ line/
topic plant/# out 1
keepalive_interval 20
restart_timeout 5 120
notifications false
try_private false
bridge_attempt_unsubscribe false
connection second
address 192.0.2.9
topic # out
`,
  );
  assert.equal(config.gateway.id, 'to-the-cloud');
  assert.deepEqual(config.bridge.topics, ['plant/#', 'with blanks/#', 'line/state']);
  const { url, tls, protocolVersion, clientId, username, keepalive, backoff, password } = config.upstream;
  assert.deepEqual(
    { url, tls, protocolVersion, clientId, username, keepalive, backoff },
    {
      url: 'mqtts://broker.example.com:8883',
      tls: { ca: '/c/ca.pem', cert: '/c/client.pem', key: '/c/client.key' },
      protocolVersion: 5,
      clientId: 'plant-7',
      username: 'plant',
      keepalive: 20_000,
      backoff: { min: 5000, max: 120_000 },
    },
  );
  assert.equal(password && readSecret(password), `s3cr$\{et}"`);
  assert.doesNotMatch(remarks.join('\n'), /s3cr/);
  assert.deepEqual(
    remarks.filter((remark) => remark.includes('unsupported')),
    [
      '2 unsupported: there is one upstream: mqtts://broker.example.com:8883',
      '11 unsupported: nothing comes from the cloud into the plant',
      '13 unsupported: goes out as line/state; nothing comes from the cloud into the plant',
      '20 unsupported: there is one upstream, that of the first connection',
    ],
  );
});

test('limits and the log', (t) => {
  const { config, remarks } = run(
    t,
    `max_queued_messages 0
message_size_limit 1000
persistent_client_expiration 2m
global_max_clients 50
log_type error
log_type warning
queue_qos0_messages true
retain_available true
constructor 1
max_queued_messages many
`,
    { upstream: 'mqtt://192.0.2.1' },
  );
  const { packetBytesMax, sessionExpiryMax, sessionsMax, sessionQueueMax } = config.broker;
  assert.deepEqual(
    [packetBytesMax, sessionExpiryMax, sessionsMax, sessionQueueMax],
    [67_000, 60 * 86_400_000, 50, 100_000],
  );
  assert.equal(config.log.level, 'warn');
  assert.deepEqual(remarks, [
    '2 changed: a larger message ends its connection, it is not dropped and acknowledged',
    '7 unsupported: QoS 0 is not kept for clients that are away',
    '9 unsupported: is no setting that Mosquitto 2 knows here',
    '10 unsupported: is no value that Mosquitto knows',
  ]);
});

test('a file that is not there is told', (t) => {
  const missing = join(tempDir(t), 'none.conf');
  assert.throws(() => importMosquitto(missing), { code: 'config.invalid', message: /none\.conf: cannot be read/ });
  assert.throws(() => run(t, 'include_dir /no/such/folder\n'), {
    code: 'config.invalid',
    message: /:1: include_dir: cannot be read/,
  });
});

test('every value that is written is one of the schema', (t) => {
  const { yaml } = importMosquitto(configFile(t, 'listener 1883\nconnection c\naddress h\ntopic a\n', 'm.conf'));
  assert.equal(gatewaySchema.safeParse(parse(yaml)).success, true);
});
