import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../helpers/wait.js';
import { Checker } from './checker.js';
import { skipWithoutGcc } from './native.js';
import { checkSound, effort, record, seed, told } from './recorded.js';

const options = { skip: skipWithoutGcc };
/** When in each life the power goes. */
const PARTS = [0.8, 0.7, 1];

test('several lives, ended in order and by kills in the middle of the load', options, async (t) => {
  await checkSound(t, { images: 2500, variants: ['small-log'] }, async (plant) => {
    await plant.start();
    await plant.leaveSession();
    const client = await plant.client();
    for (const end of ['kill', 'stop', 'kill'] as const) {
      const before = plant.acknowledgedIds.size;
      const done = plant.publish(client, { count: 16 });
      await until('half of it', () => plant.acknowledgedIds.size >= before + 6);
      await plant[end]();
      await plant.start();
      await done;
    }
    await plant.collect(10);
  });
});

test('QoS 2 from a publisher that comes back, exactly once', options, async (t) => {
  await checkSound(t, { images: 2500 }, async (plant) => {
    await plant.start();
    await plant.leaveSession();
    const client = await plant.client({ clientId: 'press', clean: false });
    const done = plant.publish(client, { count: 28, qos: 2 });
    await until('some of it', () => plant.acknowledgedIds.size >= 10);
    await plant.kill();
    await plant.start();
    await done;
    await plant.drained();
  });
});

test('a cut, a start on what it left, load, and another cut', options, async (t) => {
  const checker = new Checker({ seed, images: 800 * effort });
  let firstId = 1;
  let disk = checker.leftBy('dropped');
  for (const life of PARTS.keys()) {
    const log = await record(t, { firstId }, disk, async (plant) => {
      await plant.cloud.set({ absent: life === 1 });
      await plant.start();
      if (life === 0) await plant.leaveSession();
      await plant.publish(await plant.client(), { count: 14 });
      if (life !== 1) await until('some of it in the cloud', () => plant.inCloud.seqs.size > 3);
    });
    const { breaches } = told(t, () => checker.check(log, disk, PARTS[life]));
    assert.deepEqual([...breaches], []);
    disk = checker.leftBy(life === 0 ? 'torn' : 'prefix');
    firstId += 1000;
  }
});
