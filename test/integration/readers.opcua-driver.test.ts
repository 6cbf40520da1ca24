import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GOOD } from '../../src/model/reading.js';
import { BAD_CONFIG, BAD_SENSOR_FAILURE } from '../../src/readers/quality.js';
import { until } from '../helpers/wait.js';
import { PRESS, UaRig, UaServer } from './readers.opcua-rig.js';

const group = { ...PRESS.groups[0]!, heartbeatMs: 3_600_000 };
const device = (names: readonly string[], more: object = {}) => ({
  asset: 'press',
  groups: [{ ...group, tags: names.map((name) => ({ name, node: `nsu=urn:plant;s=${name}` })), ...more }],
});

test('values of every type come exact, by subscription and by poll', async (t) => {
  const server = await UaServer.open(t);
  const names = ['Speed', 'Count', 'Total', 'Balance', 'Running', 'Order', 'Ratio', 'Since', 'Profile', 'Nothing'];
  for (const mode of ['subscribe', 'poll'] as const) {
    const rig = new UaRig(t, server.url, { devices: [device(names, { mode })] });
    await until('every tag', () => names.every((name) => rig.last(name)), 30_000);
    const value = (name: string) => [rig.last(name)?.type, rig.last(name)?.value, rig.last(name)?.quality];
    assert.deepEqual(value('Speed'), ['f', 1.5, GOOD]);
    assert.deepEqual(value('Count'), ['i', 7, GOOD]);
    assert.deepEqual(value('Total'), ['i', 2n ** 64n - 2n, GOOD]);
    assert.deepEqual(value('Balance'), ['i', -5n, GOOD]);
    assert.deepEqual(value('Running'), ['b', true, GOOD]);
    assert.deepEqual(value('Order'), ['s', 'A-17', GOOD]);
    assert.deepEqual(value('Since'), ['s', '2026-01-31T08:00:00.000Z', GOOD]);
    assert.deepEqual(value('Profile').slice(1), [null, BAD_CONFIG], 'an array is refused, not flattened');
    assert.deepEqual(value('Nothing').slice(1), [null, BAD_CONFIG], 'a node that is not there is said to be so');
    assert.equal(rig.status().state, 'degraded');
    await rig.driver.stop();
  }
});

test('each value has the time of its source, a bad one its reason, and none is lost between two publishes', async (t) => {
  const server = await UaServer.open(t);
  const rig = new UaRig(t, server.url, { devices: [device(['Speed', 'Count'], { everyMs: 100, samplingMs: 0 })] });
  await rig.sees('Count', 7);
  await server.tell({ burst: { name: 'Count', values: [11, 12, 13, 14] } });
  await rig.sees('Count', 14);
  assert.deepEqual(
    rig.of('Count').map(({ value }) => value),
    [7, 11, 12, 13, 14],
  );
  const times = rig.batches.filter(({ samples }) => samples.some(({ tag }) => tag === 'Count')).map(({ ts }) => ts);
  assert.deepEqual([...new Set(times)], [...times].sort(), 'no time twice, none backwards');
  await server.tell({ bad: { Speed: 'BadSensorFailure' } });
  await until('the bad value', () => rig.last('Speed')?.quality === BAD_SENSOR_FAILURE);
  assert.equal(rig.last('Speed')?.value, null);
  await until('the cause', () => rig.status().cause === 'BadSensorFailure');
  assert.equal(rig.status().state, 'degraded');
  await server.tell({ set: { Speed: 2.5 } });
  await rig.sees('Speed', 2.5);
  assert.equal(rig.status().state, 'online');
});

test('a queue that overflowed in the server is a gap of the tag', async (t) => {
  const server = await UaServer.open(t);
  const rig = new UaRig(t, server.url, { devices: [device(['Count'], { everyMs: 200, samplingMs: 0, queue: 2 })] });
  await rig.sees('Count', 7);
  const values = Array.from({ length: 200 }, (_, i) => 100 + i);
  await server.tell({ burst: { name: 'Count', values } });
  await rig.sees('Count', 299);
  const gaps = rig.batches.flatMap(({ tagGaps = [] }) => tagGaps);
  assert.ok(gaps.some(({ tag, reason, from, to }) => tag === 'Count' && reason === 'polls-skipped' && from < to));
});

test('an unchanged value is said again at the heartbeat', async (t) => {
  const server = await UaServer.open(t);
  const rig = new UaRig(t, server.url, { devices: [device(['Speed'], { heartbeatMs: 300 })] });
  await until('the value several times', () => rig.of('Speed').length >= 3);
  assert.ok(rig.of('Speed').every(({ value }) => value === 1.5));
});
