import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutGcc } from './native.js';
import { checkSound } from './recorded.js';

const options = { skip: skipWithoutGcc };

test('a start on an empty folder, steady load, and a cloud that takes it', options, async (t) => {
  const report = await checkSound(t, { images: 2500 }, async (plant) => {
    await plant.start();
    await plant.leaveSession();
    await plant.publish(await plant.client(), { count: 32 });
    await plant.drained();
    await plant.collect(10);
  });
  assert.ok(report.acknowledged === 26 && report.delivered > 0);
});

test('a log that is moved into the file all the time', options, async (t) => {
  await checkSound(t, { images: 2500, variants: ['small-log'] }, async (plant) => {
    await plant.start();
    await plant.leaveSession();
    await plant.publish(await plant.client(), { count: 32, padBytes: 700, window: 3 });
    await plant.drained();
    await plant.stop();
  });
});

test('an outage, a restart in it, and the drain', options, async (t) => {
  const report = await checkSound(t, { images: 2500 }, async (plant) => {
    await plant.cloud.set({ absent: true });
    await plant.start();
    await plant.publish(await plant.client(), { count: 36, window: 6 });
    assert.equal(await plant.stop(), 0);
    await plant.start();
    await plant.cloud.set({ absent: false, ackDelayMs: 3, swallowAcks: 1 });
    await plant.drained();
    await plant.publish(await plant.client(), { count: 10 });
    await plant.drained();
    assert.equal(await plant.stop(), 0);
  });
  assert.ok(report.delivered >= 29);
});
