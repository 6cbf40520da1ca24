import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GOOD } from '../../src/model/reading.js';
import { BAD_COMM_FAILURE, BAD_NOT_CONNECTED } from '../../src/readers/quality.js';
import { until } from '../helpers/wait.js';
import { UaRig, UaServer } from './readers.opcua-rig.js';

test('a server that is killed and comes back with other namespace indexes leaves one gap and the same tags', async (t) => {
  const server = await UaServer.open(t);
  const rig = new UaRig(t, server.url);
  await rig.sees('Count', 7);
  await server.tell({ set: { Count: 8 } });
  await rig.sees('Count', 8);
  await server.kill();
  await until('the tags to be bad', () => rig.last('Count')?.quality === BAD_NOT_CONNECTED, 30_000);
  assert.equal(rig.status().state, 'offline');
  await until('the cause', () => rig.status().cause === 'ECONNREFUSED', 30_000);
  assert.equal(rig.of('Count').filter(({ value }) => value === null).length, 1, 'told once');

  await server.start({ before: ['urn:other', 'urn:another'] });
  await rig.sees('Count', 7);
  assert.equal(rig.last('Count')?.quality, GOOD);
  assert.equal(rig.status().state, 'online');
  const gaps = rig.batches.flatMap(({ gap }) => (gap ? [gap] : []));
  assert.equal(gaps.length, 1);
  assert.ok(gaps[0]!.from < gaps[0]!.to && gaps[0]!.uncounted);
  assert.equal(gaps[0]!.reason, 'device-unreachable');

  const before = rig.of('Count').length;
  await server.tell({ set: { Count: 9 } });
  await rig.sees('Count', 9);
  assert.equal(rig.of('Count').length, before + 1, 'one subscription, one reading');
  assert.equal(rig.driver.status().link.connects, 2);
});

test('a server that falls silent is lost within seconds, and read again when it speaks', async (t) => {
  const server = await UaServer.open(t);
  const rig = new UaRig(t, server.url);
  await rig.sees('Count', 7);
  server.signal('SIGSTOP');
  await until('the tags to be bad', () => rig.last('Count')?.quality === BAD_COMM_FAILURE, 30_000);
  assert.equal(rig.status().state, 'offline');
  server.signal('SIGCONT');
  await rig.sees('Count', 7);
  await until('the device to be online', () => rig.status().state === 'online');
  const gaps = rig.batches.flatMap(({ gap }) => (gap ? [gap] : []));
  assert.equal(gaps.length, 1);
  const before = rig.of('Count').length;
  await server.tell({ set: { Count: 9 } });
  await rig.sees('Count', 9);
  assert.equal(rig.of('Count').length, before + 1, 'the subscription of the old session is not heard');
});

test('a stop in the middle of an outage ends in time', async (t) => {
  const server = await UaServer.open(t);
  const rig = new UaRig(t, server.url);
  await rig.sees('Count', 7);
  server.signal('SIGSTOP');
  await rig.driver.stop();
  assert.equal(rig.driver.status().link.state, 'closed');
  assert.equal(rig.status().cause, 'stopped');
});
