import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { loadGatewayConfig, loadIngestConfig } from '../../src/config/loader.js';
import { configFile } from '../helpers/config-file.js';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const KIB = 1024;
const MIB = 1024 * KIB;

test('a gateway needs an id and an upstream; the rest has defaults', (t) => {
  const file = configFile(t, 'gateway: { id: line-1 }\nupstream: { url: "mqtt://192.0.2.1" }\n');
  const dir = dirname(file);
  assert.deepEqual(loadGatewayConfig(file), {
    gateway: { id: 'line-1', dataDir: join(dir, 'data') },
    log: { level: 'info' },
    broker: {
      listeners: [],
      refuseDeniedFilters: false,
      packetBytesMax: 256 * KIB,
      connectTimeout: 5000,
      clientsMax: 10_000,
      clientsPerAddressMax: 5_000,
      connectRateMax: 200,
      keepaliveMax: 0,
      clientMessageRateMax: 0,
      clientByteRateMax: 0,
      clientPendingMax: 1000,
      sessionExpiryMax: 7 * DAY,
      retainedMax: 100_000,
      retainedBytesMax: 64 * MIB,
      retainedTime: false,
      sessionsMax: 10_000,
      sessionQueueMax: 100_000,
      sessionQueueBytesMax: 256 * MIB,
      sessionQueuePolicy: 'drop-newest',
      topicBytesMax: KIB,
      topicLevelsMax: 20,
      strictReceiveMaximum: false,
      whenFull: 'stall',
    },
    bridge: {
      topics: ['plant/#'],
      readings: [{ topic: 'plant/{asset}/{metric}', payload: 'json', ignoreKeys: [] }],
    },
    spool: {
      path: join(dir, 'data/spool.db'),
      bytesMax: 2048 * MIB,
      diskFreeMin: 256 * MIB,
      whenFull: 'block',
      classes: [],
    },
    upstream: {
      url: 'mqtt://192.0.2.1',
      protocolVersion: 5,
      clientId: 'holdfast-line-1',
      connectTimeout: 20_000,
      keepalive: 30_000,
      backoff: { min: 1000, max: MINUTE },
      preset: 'generic',
      topic: 'edge/line-1/batch',
      format: 'columns',
      compression: 'gzip',
      batchRowsMax: 500,
      batchBytesMax: 128 * KIB,
      inFlightMax: 16,
      linger: 1000,
      ack: 'puback',
      ackTopic: 'edge/line-1/ack',
      unconfirmedRowsMax: 50_000,
      unconfirmedBytesMax: 16 * MIB,
      ackTimeout: 20_000,
      onNoSubscribers: 'hold',
    },
    readers: [],
  });
});

test('a reader needs a link, a device and its tags; the rest has defaults', (t) => {
  const file = configFile(
    t,
    `gateway: { id: line-1 }
upstream: { url: "mqtt://192.0.2.1" }
readers:
  - type: modbus
    url: tcp://192.0.2.20
    devices: [{ asset: filler, groups: [{ every: 1m, tags: [{ name: t, at: "hr:1", type: u16 }] }] }]
`,
  );
  assert.deepEqual(loadGatewayConfig(file).readers, [
    {
      type: 'modbus',
      url: 'tcp://192.0.2.20',
      connectTimeout: 3000,
      timeout: 1000,
      retries: 1,
      pauseAfterConnect: 0,
      acceptAnyUnit: false,
      localEcho: false,
      closeAfterPoll: false,
      minGap: 0,
      backoff: { min: 500, max: 30_000 },
      topic: 'plant/{asset}/{metric}',
      statusTopic: 'holdfast/line-1/device/{asset}',
      devices: [
        {
          asset: 'filler',
          unit: 1,
          labels: {},
          order: 'ABCD',
          addressing: 'pdu0',
          limits: { registers: 125, bits: 2000, gap: 'auto' },
          quirks: { oneRequestPerTag: false, coilsFromZero: false, writeMultiple: false, readWrite: false },
          groups: [
            {
              every: MINUTE,
              report: 'always',
              heartbeat: MINUTE,
              tags: [{ name: 't', at: 'hr:1', type: 'u16' }],
            },
          ],
        },
      ],
    },
  ]);
});

test('an ingest needs an id and a source; the rest has defaults', (t) => {
  const file = configFile(t, 'ingest: { id: i }\nsource: { url: "mqtt://192.0.2.1" }\nweb: {}\n');
  const dir = dirname(file);
  assert.deepEqual(loadIngestConfig(file), {
    ingest: { id: 'i', dataDir: join(dir, 'historian') },
    log: { level: 'info' },
    source: {
      url: 'mqtt://192.0.2.1',
      protocolVersion: 5,
      clientId: 'holdfast-i',
      connectTimeout: 20_000,
      keepalive: 30_000,
      backoff: { min: 1000, max: MINUTE },
      topic: 'edge/+/batch',
      ack: 'asked',
      ackTopic: 'edge/{gateway}/ack',
      sessionExpiry: DAY,
    },
    historian: {
      type: 'sqlite',
      path: join(dir, 'historian/historian.db'),
      connections: 4,
      futureMax: 5 * MINUTE,
      rollupEvery: MINUTE,
    },
    reconcile: { afterOutage: 10 * MINUTE, within: 180 * MINUTE },
    web: { listen: '127.0.0.1:8081' },
  });
});

test('relative paths start at the folder of the config file, absolute ones stay', (t) => {
  const file = configFile(
    t,
    `gateway: { id: a, dataDir: ../elsewhere }
spool: { path: /var/lib/holdfast/spool.db }
upstream: { url: "mqtts://h", tls: { ca: ca.pem, cert: tls/a.pem, key: /etc/a.key } }
`,
  );
  const dir = dirname(file);
  const { gateway, spool, upstream } = loadGatewayConfig(file);
  assert.equal(gateway.dataDir, join(dir, '../elsewhere'));
  assert.equal(spool.path, '/var/lib/holdfast/spool.db');
  assert.deepEqual(upstream.tls, { ca: join(dir, 'ca.pem'), cert: join(dir, 'tls/a.pem'), key: '/etc/a.key' });
});

test('PLC notation is taken as a number or as a text where the device says so', (t) => {
  const file = configFile(
    t,
    `gateway: { id: a }
upstream: { url: "mqtt://h" }
readers:
  - type: modbus
    url: tcp://h
    devices:
      - asset: filler
        addressing: plc1
        groups:
          - every: 1s
            tags: [
              { name: a, at: 40108, type: u16 }, { name: b, at: "400301.10", type: bool }, { name: c, at: "hr:5", type: u16 },
            ]
`,
  );
  const [reader] = loadGatewayConfig(file).readers;
  assert(reader?.type === 'modbus');
  assert.deepEqual(
    reader.devices[0]?.groups[0]?.tags.map(({ at }) => at),
    ['40108', '400301.10', 'hr:5'],
  );
});
