import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../helpers/wait.js';
import { Checker } from './checker.js';
import { skipWithoutGcc } from './native.js';
import { effort, record, recordAndCheck, seed, told } from './recorded.js';

const options = { skip: skipWithoutGcc };
const nothing: [] = [];

test('a start on an empty folder, steady load, and a cloud that takes it', options, async (t) => {
  const report = await recordAndCheck(t, { images: 2400 }, async (plant) => {
    await plant.start();
    await plant.leaveSession();
    await plant.publish(await plant.client(), { count: 60 });
    await plant.drained();
    await plant.collect(20);
  });
  assert.deepEqual([...report.breaches], nothing);
  assert.ok(report.acknowledged === 48 && report.delivered > 0);
});

test('a log that is moved into the file all the time', options, async (t) => {
  const report = await recordAndCheck(t, { images: 2400, variants: ['small-log'] }, async (plant) => {
    await plant.start();
    await plant.leaveSession();
    await plant.publish(await plant.client(), { count: 50, padBytes: 700, window: 3 });
    await plant.drained();
    await plant.stop();
  });
  assert.deepEqual([...report.breaches], nothing);
});

test('an outage, a restart in it, and the drain', options, async (t) => {
  const report = await recordAndCheck(t, { images: 2400 }, async (plant) => {
    await plant.cloud.set({ absent: true });
    await plant.start();
    await plant.publish(await plant.client(), { count: 60, window: 8 });
    assert.equal(await plant.stop(), 0);
    await plant.start();
    await plant.cloud.set({ absent: false, ackDelayMs: 3, swallowAcks: 1 });
    await plant.drained();
    await plant.publish(await plant.client(), { count: 10 });
    await plant.drained();
    assert.equal(await plant.stop(), 0);
  });
  assert.deepEqual([...report.breaches], nothing);
  assert.ok(report.delivered >= 48);
});

test('several lives, ended in order and by kills in the middle of the load', options, async (t) => {
  const report = await recordAndCheck(t, { images: 2400, variants: ['small-log'] }, async (plant) => {
    await plant.start();
    await plant.leaveSession();
    const client = await plant.client();
    for (const end of ['kill', 'stop', 'kill'] as const) {
      const before = plant.acknowledged;
      const done = plant.publish(client, { count: 24 });
      await until('half of it', () => plant.acknowledged >= before + 12);
      await plant[end]();
      await plant.start();
      await done;
    }
    await plant.collect(10);
  });
  assert.deepEqual([...report.breaches], nothing);
});

test('QoS 2 from a publisher that comes back, exactly once', options, async (t) => {
  const report = await recordAndCheck(t, { images: 2400 }, async (plant) => {
    await plant.start();
    await plant.leaveSession();
    const client = await plant.client({ clientId: 'press', clean: false });
    const done = plant.publish(client, { count: 40, qos: 2 });
    await until('some of it', () => plant.acknowledged >= 15);
    await plant.kill();
    await plant.start();
    await done;
    await plant.drained();
  });
  assert.deepEqual([...report.breaches], nothing);
});

test('a cut, a start on what it left, load, and another cut', options, async (t) => {
  const checker = new Checker({ seed, images: 800 * effort });
  let firstId = 1;
  let disk = checker.leftBy('dropped');
  for (let life = 0; life < 3; life++) {
    const { log } = await record(t, { firstId }, disk, async (plant) => {
      await plant.cloud.set({ absent: life === 1 });
      await plant.start();
      if (life === 0) await plant.leaveSession();
      await plant.publish(await plant.client(), { count: 20 });
      if (life !== 1) await until('some of it in the cloud', () => plant.inCloud.seqs.size > 5);
    });
    const report = told(t, () => checker.check(log, disk));
    assert.deepEqual([...report.breaches], nothing);
    disk = checker.leftBy(life === 0 ? 'torn' : 'dropped');
    firstId += 1000;
  }
});
