import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endpointOf } from '../../src/config/address.js';
import { covers } from '../../src/config/topics.js';
import { duration, formatDuration, formatSize, size } from '../../src/config/units.js';

test('durations are read as milliseconds and printed in the largest unit that is exact', () => {
  const schema = duration('0ms');
  const read = { '0ms': 0, '250ms': 250, '1.5s': 1500, '90s': 90_000, '1m': 60_000, '2h': 7_200_000, '1d': 86_400_000 };
  for (const [text, ms] of Object.entries(read)) assert.equal(schema.parse(text), ms, text);
  for (const text of ['5', 's', '1 s', '-1s', '1.5ms', '1w', '1S', '4000d', ''])
    assert.equal(schema.safeParse(text).success, false, text);
  const printed = { 0: '0ms', 250: '250ms', 1500: '1500ms', 90000: '90s', 60000: '1m', 7200000: '2h', 604800000: '7d' };
  for (const [ms, text] of Object.entries(printed)) assert.equal(formatDuration(Number(ms)), text);
});

test('sizes are read as bytes and printed in the largest unit that is exact', () => {
  const schema = size('0B');
  const read = { '512B': 512, '64KiB': 65_536, '128KB': 128_000, '1.1KB': 1100, '2GiB': 2 ** 31, '1TB': 1e12 };
  for (const [text, bytes] of Object.entries(read)) assert.equal(schema.parse(text), bytes, text);
  for (const text of ['5', '64kib', '0.5B', '9000000TiB', 'GiB'])
    assert.equal(schema.safeParse(text).success, false, text);
  const printed = {
    0: '0B',
    512: '512B',
    65536: '64KiB',
    1000: '1KB',
    128000: '125KiB',
    131072: '128KiB',
    2147483648: '2GiB',
    1001: '1001B',
  };
  for (const [bytes, text] of Object.entries(printed)) assert.equal(formatSize(Number(bytes)), text);
});

test('an address is split into host and port, with the port that its scheme means', () => {
  assert.deepEqual(endpointOf('mqtt://h'), { scheme: 'mqtt', host: 'h', port: 1883 });
  assert.deepEqual(endpointOf('mqtts://h'), { scheme: 'mqtts', host: 'h', port: 8883 });
  assert.deepEqual(endpointOf('wss://h/mqtt'), { scheme: 'wss', host: 'h', port: 443 });
  assert.deepEqual(endpointOf('ws://[::1]:9001'), { scheme: 'ws', host: '::1', port: 9001 });
  assert.deepEqual(endpointOf('tcp://192.0.2.20'), { scheme: 'tcp', host: '192.0.2.20', port: 502 });
  assert.deepEqual(endpointOf('127.0.0.1:0'), { scheme: 'tcp', host: '127.0.0.1', port: 0 });
});

test('a filter covers what its wildcards say', () => {
  for (const [filter, topic] of [
    ['plant/#', 'plant'],
    ['plant/#', 'plant/a/b'],
    ['plant/+/t', 'plant/a/t'],
    ['plant/filler/#', 'plant/{asset}/{metric}'],
    ['#', 'a/b'],
  ] as const)
    assert.equal(covers(filter, topic), true, `${filter} ${topic}`);
  for (const [filter, topic] of [
    ['plant/+', 'plant/a/b'],
    ['plant/+/t', 'plant/a/u'],
    ['plant/a/b/c', 'plant/{asset}/{metric}'],
    ['Plant/#', 'plant/a'],
  ] as const)
    assert.equal(covers(filter, topic), false, `${filter} ${topic}`);
});
