import assert from 'node:assert/strict';
import { test } from 'node:test';
import { complaints, configFile } from '../helpers/config-file.js';

/** Two lines that make a config valid; the mistakes of a case begin in line 3. */
const HEAD = 'gateway: { id: line-1 }\nupstream: { url: "mqtt://127.0.0.1:1884" }\n';

/** A reader with one device and these tags, a tag a line from line 8 on. */
function readerOf(...tags: string[]): string {
  return [
    `${HEAD}readers:`,
    '  - type: modbus',
    '    url: tcp://192.0.2.20',
    '    devices:',
    '      - { asset: filler, groups: [ { every: 1s, tags: [',
    ...tags.map((tag) => `          ${tag},`),
    '        ] } ] }',
    '',
  ].join('\n');
}

const TAGS = 'readers.0.devices.0.groups.0.tags';

const CASES: Record<string, { text: string; said: string[] }> = {
  'a required part is missing': {
    text: 'gateway: { dataDir: x }\n',
    said: ['c.yaml:1:1: upstream: is required', 'c.yaml:1:10: gateway.id: is required'],
  },
  'the main key is misspelled': {
    text: 'gatewya: { id: a }\nupstream: { url: "mqtt://h" }\n',
    said: ['c.yaml:1:1: gateway: is required', 'c.yaml:1:1: gatewya: unknown key "gatewya"; did you mean "gateway"?'],
  },
  'a part is empty': { text: `${HEAD}broker:\n`, said: ['c.yaml:3:1: broker: expected a map, found nothing'] },
  'an unknown key has a neighbour': {
    text: `${HEAD}spool:\n  bytesmax: 1GiB\n  whenful: block\n  colour: red\n`,
    said: [
      'c.yaml:4:3: spool.bytesmax: unknown key "bytesmax"; did you mean "bytesMax"?',
      'c.yaml:5:3: spool.whenful: unknown key "whenful"; did you mean "whenFull"?',
      'c.yaml:6:3: spool.colour: unknown key "colour"',
    ],
  },
  'yes is meant to be true': {
    text: `${HEAD}broker:\n  listeners:\n    - { url: "mqtt://127.0.0.1", anonymous: yes }\n`,
    said: [
      'c.yaml:5:45: broker.listeners.0.anonymous: expected true or false, found the text "yes"; ' +
        'YAML 1.2 has true and false only, without quotes',
    ],
  },
  'a list is a text': {
    text: `${HEAD}bridge: { topics: plant/# }\n`,
    said: ['c.yaml:3:19: bridge.topics: expected a list, found the text "plant/#"'],
  },
  'a number is a text': {
    text: `${HEAD}broker: { sessionsMax: "many", retainedMax: 1.5, clientPendingMax: 0 }\n`,
    said: [
      'c.yaml:3:24: broker.sessionsMax: expected a number, found the text "many"',
      'c.yaml:3:45: broker.retainedMax: expected a whole number, found the number 1.5',
      'c.yaml:3:68: broker.clientPendingMax: must be at least 1, found 0',
    ],
  },
  'a duration or a size is wrong': {
    text: `${HEAD}broker:\n  connectTimeout: 5\n  sessionExpiryMax: 7 days\n  packetBytesMax: 256\n  retainedBytesMax: 1.5B\n`,
    said: [
      'c.yaml:4:19: broker.connectTimeout: expected a duration with its unit, like 250ms, 5s, 1m, 2h or 1d, found the number 5',
      'c.yaml:5:21: broker.sessionExpiryMax: expected a duration with its unit, like 250ms, 5s, 1m, 2h or 1d, found the text "7 days"',
      'c.yaml:6:19: broker.packetBytesMax: expected a size with its unit, like 512B, 64KiB, 128KB or 2GiB, found the number 256',
      'c.yaml:7:21: broker.retainedBytesMax: is no whole number of bytes: 1.5B',
    ],
  },
  'a value is out of its range': {
    text: 'gateway: { id: "line 1" }\nupstream: { url: "mqtt://h", inFlightMax: 65536, batchBytesMax: 1B, keepalive: 1500ms }\n',
    said: [
      'c.yaml:1:16: gateway.id: expected 1 to 64 letters, digits, dots, underscores or hyphens',
      'c.yaml:2:43: upstream.inFlightMax: must be at most 65535, found 65536',
      'c.yaml:2:65: upstream.batchBytesMax: must be from 1KiB to 268435455B, found 1B',
      'c.yaml:2:80: upstream.keepalive: must be whole seconds',
    ],
  },
  'settings of one way to the cloud with the other': {
    text: 'gateway: { id: a }\nupstream: { url: "https://h/ingest", username: u, ack: puback }\n',
    said: [
      'c.yaml:2:48: upstream.username: has no effect with https://; use token',
      'c.yaml:2:56: upstream.ack: there is no PUBACK with https://; leave it out',
    ],
  },
  'a token for a broker': {
    text: 'gateway: { id: a }\nupstream: { url: "mqtt://h", token: { env: T } }\n',
    said: ['c.yaml:2:37: upstream.token: has no effect with mqtt://; use username and password'],
  },
  'the shortest wait is longer than the longest': {
    text: 'gateway: { id: a }\nupstream: { url: "mqtt://h", backoff: { min: 2m } }\n',
    said: ['c.yaml:2:46: upstream.backoff.min: must not be longer than max'],
  },
  'a choice is misspelled': {
    text: `${HEAD}log: { level: warning }\nspool: { whenFull: refuse }\n`,
    said: [
      'c.yaml:3:15: log.level: expected one of debug, info, warn, error, silent, found the text "warning"',
      'c.yaml:4:20: spool.whenFull: expected one of block, drop-oldest, found the text "refuse"',
    ],
  },
  'a URL is wrong': {
    text: `gateway: { id: a }\nupstream: { url: "mqtt://h:0" }\nbroker:\n  listeners:
    - { url: "tcp://127.0.0.1:1883" }\n    - { url: "mqtt://" }\n    - { url: "mqtt://u:hunter2@h" }\n    - { url: "ws://h/mqtt" }\n    - { url: "mqtt://h:99999" }\n`,
    said: [
      'c.yaml:2:18: upstream.url: must name a port; 0 is only for listeners',
      'c.yaml:5:14: broker.listeners.0.url: expected a URL like mqtt://HOST:PORT, with one of mqtt://, mqtts://, ws://, wss://; found tcp://',
      'c.yaml:6:14: broker.listeners.1.url: expected a URL like mqtt://HOST:PORT',
      'c.yaml:7:14: broker.listeners.2.url: must not contain credentials; write them as username and password',
      'c.yaml:8:14: broker.listeners.3.url: must not have a path, found /mqtt',
      'c.yaml:9:14: broker.listeners.4.url: expected a URL like mqtt://HOST:PORT',
    ],
  },
  'the page has no address': {
    text: `${HEAD}web: { listen: "8080" }\n`,
    said: ['c.yaml:3:16: web.listen: expected HOST:PORT, like 127.0.0.1:8080 or [::1]:8080'],
  },
  'a topic filter is wrong': {
    text: `${HEAD}bridge: { topics: ["", "$SYS/#", "a/#/b", "a/b+", "a#", ok/+/#] }\n`,
    said: [
      'c.yaml:3:20: bridge.topics.0: must not be empty',
      "c.yaml:3:24: bridge.topics.1: must not begin with $: these topics are the broker's own",
      'c.yaml:3:34: bridge.topics.2: # must be the last level',
      'c.yaml:3:43: bridge.topics.3: a wildcard must be a whole level',
      'c.yaml:3:51: bridge.topics.4: a wildcard must be a whole level',
    ],
  },
  'a template is wrong': {
    text: `gateway: { id: a }\nupstream: { url: "mqtt://h", topic: "edge/+/batch" }\nbridge:\n  readings:
    - topic: plant/{asset}\n    - topic: plant/{asset}/x-{metric}\n    - topic: "{asset}/{metric}/{asset}"\n    - topic: "{line}/{asset}/{metric}"\n`,
    said: [
      'c.yaml:2:37: upstream.topic: must not contain a wildcard: + and # are for subscribers',
      'c.yaml:5:14: bridge.readings.0.topic: must contain {metric} as a whole level',
      'c.yaml:6:14: bridge.readings.1.topic: a placeholder must be a whole level, found x-{metric}',
      'c.yaml:7:14: bridge.readings.2.topic: must contain {asset} only once',
      'c.yaml:8:14: bridge.readings.3.topic: unknown placeholder {line}, known here: {asset} {metric}',
    ],
  },
  'origins of web pages where no page can connect, and a keepalive of half a second': {
    text: 'gateway: { id: a }\nupstream: { url: "mqtt://h" }\nbroker:\n  keepaliveMax: 1500ms\n  listeners: [{ url: "mqtt://127.0.0.1:1", origins: ["*"] }]\n',
    said: [
      'c.yaml:4:17: broker.keepaliveMax: must be whole seconds',
      'c.yaml:5:53: broker.listeners.0.origins: has no effect with mqtt://, only with ws://',
    ],
  },
  'origins with MQTT over TLS': {
    text: 'gateway: { id: a }\nupstream: { url: "mqtt://h" }\nbroker:\n  listeners: [{ url: "mqtts://127.0.0.1:1", tls: { cert: c, key: k }, origins: ["*"] }]\n',
    said: ['c.yaml:4:80: broker.listeners.0.origins: has no effect with mqtts://, only with wss://'],
  },
  'TLS settings do not fit': {
    text: 'gateway: { id: a }\nupstream:\n  url: mqtt://h\n  tls: { cert: c.pem }\n',
    said: [
      'c.yaml:4:8: upstream.tls: has no effect with mqtt://; use mqtts://',
      'c.yaml:4:16: upstream.tls.cert: needs key too',
    ],
  },
  'a password stands alone in MQTT 3.1.1': {
    text: 'gateway: { id: a }\nupstream: { url: "mqtt://h", protocolVersion: 4, password: { env: P } }\n',
    said: ['c.yaml:2:60: upstream.password: needs a username in MQTT 3.1.1'],
  },
  'TLS settings of a listener that do not go together': {
    text: `${HEAD}broker:\n  listeners:
    - { url: "mqtt://h", tls: { cert: c, key: k } }
    - { url: "wss://h" }
    - { url: "mqtts://h:1", tls: { cert: c, key: k, requireCertificate: true } }
    - { url: "mqtts://h:2", tls: { cert: c, key: k, userFromCertificate: true, crl: r } }
    - { url: "mqtts://h:3", tls: { cert: c, key: k, ca: a } }
    - { url: "mqtts://h:4", tls: { cert: c, minVersion: 1.2 } }\n`,
    said: [
      'c.yaml:5:31: broker.listeners.0.tls: has no effect with mqtt://; use mqtts://',
      'c.yaml:6:14: broker.listeners.1.url: wss:// needs tls with cert and key',
      'c.yaml:7:73: broker.listeners.2.tls.requireCertificate: needs ca too',
      'c.yaml:8:74: broker.listeners.3.tls.userFromCertificate: needs requireCertificate too',
      'c.yaml:8:85: broker.listeners.3.tls.crl: needs ca too',
      'c.yaml:9:57: broker.listeners.4.tls.ca: needs requireCertificate too',
      'c.yaml:10:34: broker.listeners.5.tls.key: is required',
      'c.yaml:10:57: broker.listeners.5.tls.minVersion: expected one of TLSv1.2, TLSv1.3, found the number 1.2',
    ],
  },
  'two listeners want one port': {
    text: `${HEAD}broker:\n  listeners:\n    - { url: "mqtt://127.0.0.1:1883" }\n    - { url: "ws://0.0.0.0:1883" }\n    - { url: "ws://127.0.0.1:0" }\n    - { url: "mqtt://127.0.0.1:0" }\nweb: { listen: "127.0.0.1:1883" }\n`,
    said: [
      'c.yaml:6:14: broker.listeners.1.url: port 1883 is already taken by broker.listeners.0.url',
      'c.yaml:9:16: web.listen: port 1883 is already taken by broker.listeners.0.url',
    ],
  },
  'the upstream is the own broker': {
    text: 'gateway: { id: a }\nupstream: { url: "mqtt://localhost" }\nbroker: { listeners: [ { url: "mqtt://0.0.0.0:1883", anonymous: true } ] }\n',
    said: ['c.yaml:2:18: upstream.url: leads back to this gateway, broker.listeners.0.url'],
  },
  'a reader is of an unknown type': {
    text: `${HEAD}readers:\n  - { type: modbusTCP, url: "tcp://h" }\n  - { url: "tcp://h" }\n`,
    said: [
      'c.yaml:4:13: readers.0.type: expected one of modbus, opcua, found the text "modbusTCP"; did you mean "modbus"?',
      'c.yaml:5:5: readers.1.type: is required',
    ],
  },
  'a device has no tags': {
    text: `${HEAD}readers:\n  - { type: modbus, url: "tcp://h", devices: [ { asset: a, unit: 256, groups: [ { every: 1s, tags: [] } ] } ] }\n`,
    said: [
      'c.yaml:4:66: readers.0.devices.0.unit: must be at most 255, found 256',
      'c.yaml:4:100: readers.0.devices.0.groups.0.tags: must not be empty',
    ],
  },
  'a name does not fit into a topic': {
    text: readerOf(
      '{ name: a/b, at: "hr:0", type: u16 }',
      '{ name: $a, at: "hr:0", type: u16 }',
      '{ name: gap, at: "hr:0", type: u16 }',
    ),
    said: [
      `c.yaml:8:19: ${TAGS}.0.name: becomes one level of a topic, so it must not contain / + # { or }`,
      `c.yaml:9:19: ${TAGS}.1.name: becomes a level of a topic, so it must not begin with $`,
      `c.yaml:10:19: ${TAGS}.2.name: gap is reserved for gap records`,
    ],
  },
  'an address is wrong': {
    text: readerOf(
      '{ name: a, at: "xx:1", type: u16 }',
      '{ name: b, at: "hr:65536", type: u16 }',
      '{ name: c, at: "hr:65535", type: u32 }',
      '{ name: d, at: "hr:1.16", type: bool }',
      '{ name: e, at: "co:1.0", type: bool }',
      '{ name: f, at: 40301.3, type: bool }',
      '{ name: g, at: "65533:hr", type: u64 }',
      '{ name: h, at: "hr:65535", type: string, length: 3 }',
    ),
    said: [
      `c.yaml:8:26: ${TAGS}.0.at: expected co:, di:, hr: or ir: and a number from 0 to 65535, found xx:1`,
      `c.yaml:9:26: ${TAGS}.1.at: no such address: hr:65536`,
      `c.yaml:10:26: ${TAGS}.2.at: ends at address 65536, behind the last one, 65535`,
      `c.yaml:11:26: ${TAGS}.3.at: a register has the bits 0 to 15, found 16`,
      `c.yaml:12:26: ${TAGS}.4.at: only a register has bits`,
      `c.yaml:13:26: ${TAGS}.5.at: expected an address like "hr:107" or, in quotes, "40108"`,
      `c.yaml:14:26: ${TAGS}.6.at: expected co:, di:, hr: or ir: and a number from 0 to 65535, found 65533:hr`,
      `c.yaml:15:26: ${TAGS}.7.at: ends at address 65536, behind the last one, 65535`,
    ],
  },
  'a type does not fit its address or settings': {
    text: readerOf(
      '{ name: a, at: "hr:1", type: bool }',
      '{ name: b, at: "co:1", type: u16 }',
      '{ name: c, at: "hr:1", type: string }',
      '{ name: d, at: "hr:1", type: u16, length: 2 }',
      '{ name: e, at: "co:1", type: bool, scale: 2, offset: 1 }',
      '{ name: f, at: "hr:1", type: u16, scale: 0 }',
      '{ name: g, at: "hr:1", type: i61 }',
    ),
    said: [
      `c.yaml:8:26: ${TAGS}.0.at: a bool in a register needs its bit, like "hr:1.0"`,
      `c.yaml:9:40: ${TAGS}.1.type: expected bool at co:1, found u16`,
      `c.yaml:10:11: ${TAGS}.2.length: is required for a string`,
      `c.yaml:11:53: ${TAGS}.3.length: only a string has a length`,
      `c.yaml:12:53: ${TAGS}.4.scale: has no meaning for a bool`,
      `c.yaml:12:64: ${TAGS}.4.offset: has no meaning for a bool`,
      `c.yaml:13:52: ${TAGS}.5.scale: must not be 0`,
      `c.yaml:14:40: ${TAGS}.6.type: expected one of bool, i8, u8, i16, u16, i32, u32, i64, u64, bcd16, bcd32, f16, f32, f64, string, found the text "i61"; did you mean "i16"?`,
    ],
  },
  'PLC notation comes without its addressing': {
    text: readerOf(
      '{ name: a, at: 40108, type: u16 }',
      '{ name: b, at: "00001", type: bool }',
      '{ name: c, at: "400301.3", type: bool }',
    ),
    said: [
      `c.yaml:8:26: ${TAGS}.0.at: the notation 40108 needs addressing: plc1 at the device; without it write "hr:107"`,
      `c.yaml:9:26: ${TAGS}.1.at: the notation 00001 needs addressing: plc1 at the device; without it write "co:0"`,
      `c.yaml:10:26: ${TAGS}.2.at: the notation 400301.3 needs addressing: plc1 at the device; without it write "hr:300.3"`,
    ],
  },
  'a device is empty and a tag lacks all but its name': {
    text: `${readerOf('{ name: t }')}      -\n`,
    said: [
      `c.yaml:8:11: ${TAGS}.0.at: is required`,
      `c.yaml:8:11: ${TAGS}.0.type: is required`,
      'c.yaml:10:8: readers.0.devices.1: expected a map, found nothing',
    ],
  },
  'two tags have one name': {
    text: readerOf('{ name: t, at: "hr:1", type: u16 }', '{ name: t, at: "hr:2", type: u16 }'),
    said: [`c.yaml:9:19: ${TAGS}.1.name: filler/t is already read by ${TAGS}.0`],
  },
  'a mistake stands behind an alias': {
    text: `${HEAD}broker:\n  listeners:\n    - &one { url: "mqtt://127.0.0.1:0", anonymos: true }\n    - *one\n`,
    said: [
      'c.yaml:5:41: broker.listeners.0.anonymos: unknown key "anonymos"; did you mean "anonymous"?',
      'c.yaml:5:41: broker.listeners.1.anonymos: unknown key "anonymos"; did you mean "anonymous"?',
    ],
  },
  'one mistake of each kind hides no other': {
    text: `gateway: { id: "" }\nupstream: { url: "mqtt://h", ackTimeout: 20 }\nlog: { levl: info }\n${readerOf(
      '{ name: t, at: "hr:1", type: u16, scal: 2 }',
      '{ name: t, at: 40001, type: f61 }',
    ).slice(HEAD.length)}`,
    said: [
      'c.yaml:1:16: gateway.id: expected 1 to 64 letters, digits, dots, underscores or hyphens',
      'c.yaml:2:42: upstream.ackTimeout: expected a duration with its unit, like 250ms, 5s, 1m, 2h or 1d, found the number 20',
      'c.yaml:3:8: log.levl: unknown key "levl"; did you mean "level"?',
      `c.yaml:9:45: ${TAGS}.0.scal: unknown key "scal"; did you mean "scale"?`,
      `c.yaml:10:19: ${TAGS}.1.name: filler/t is already read by ${TAGS}.0`,
      `c.yaml:10:26: ${TAGS}.1.at: the notation 40001 needs addressing: plc1 at the device; without it write "hr:0"`,
      `c.yaml:10:39: ${TAGS}.1.type: expected one of bool, i8, u8, i16, u16, i32, u32, i64, u64, bcd16, bcd32, f16, f32, f64, string, found the text "f61"; did you mean "f16"?`,
    ],
  },
  'an ingest has no door, or one that says nothing of who may come in': {
    text: 'ingest: { id: i, http: { listen: "127.0.0.1:0" } }\nhistorian: { type: sqlite }\n',
    said: ['c.yaml:1:24: ingest.http.tokens: needed, or anonymous: true to take batches from everybody'],
  },
  'an ingest has no door': {
    text: 'ingest: { id: i }\nhistorian: { type: sqlite }\n',
    said: ['c.yaml:1:1: source: needed, or ingest.http for batches by HTTP'],
  },
  'a shared subscription has no group': {
    text: 'ingest: { id: i }\nsource: { url: "mqtt://h", topic: "$share/edge" }\n',
    said: ['c.yaml:2:35: source.topic: expected $share/GROUP/FILTER'],
  },
  'an ingest is wrong': {
    text: 'ingest: { id: i }\nsource: { url: "mqtt://h", topic: "edge/#/batch", sesionExpiry: 1d }\nhistorian: { type: sqlit, futureMax: soon }\n',
    said: [
      'c.yaml:2:35: source.topic: # must be the last level',
      'c.yaml:2:51: source.sesionExpiry: unknown key "sesionExpiry"; did you mean "sessionExpiry"?',
      'c.yaml:3:20: historian.type: expected one of sqlite, postgres, found the text "sqlit"; did you mean "sqlite"?',
      'c.yaml:3:38: historian.futureMax: expected a duration with its unit, like 250ms, 5s, 1m, 2h or 1d, found the text "soon"',
    ],
  },
};

for (const [name, { text, said }] of Object.entries(CASES))
  test(`told with its place when ${name}`, (t) => {
    assert.deepEqual(complaints(configFile(t, text)), said);
  });
