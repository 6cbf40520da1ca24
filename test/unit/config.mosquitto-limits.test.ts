import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadGatewayConfig } from '../../src/config/loader.js';
import { importMosquitto } from '../../src/config/mosquitto/import.js';
import { configFile } from '../helpers/config-file.js';

const UPSTREAM = { upstream: 'mqtt://192.0.2.1' };

test('topics may be as long and deep as they were, as far as that goes, and the difference is told', (t) => {
  const conf = configFile(t, 'listener 1883\n', 'mosquitto.conf');
  const { yaml, notes } = importMosquitto(conf, UPSTREAM);
  const note = notes.find(({ directive }) => directive === '(no limit of topics)');
  assert.match(note?.message ?? '', /topicLevelsMax 100, Mosquitto takes 200/);
  const { topicBytesMax, topicLevelsMax } = loadGatewayConfig(configFile(t, yaml)).broker;
  assert.deepEqual([topicBytesMax, topicLevelsMax], [65_535, 100]);
});

test('the bytes that are queued for a client are bounded as they were; 0 is no bound', (t) => {
  for (const [value, bytes] of [
    ['1000000', 1_000_000],
    ['0', 2 ** 40],
  ] as const) {
    const conf = configFile(t, `listener 1883\nmax_queued_bytes ${value}\n`, 'mosquitto.conf');
    const { yaml, notes } = importMosquitto(conf, UPSTREAM);
    assert.equal(notes.find(({ line }) => line === 2)?.outcome, 'kept');
    assert.equal(loadGatewayConfig(configFile(t, yaml)).broker.sessionQueueBytesMax, bytes);
  }
});
