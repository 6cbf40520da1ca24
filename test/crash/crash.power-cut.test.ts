import assert from 'node:assert/strict';
import { test } from 'node:test';
import { skipWithoutGcc } from './native.js';
import { recordAndCheck } from './recorded.js';

test('a start on an empty folder, steady load, and a cloud that takes it', { skip: skipWithoutGcc }, async (t) => {
  const report = await recordAndCheck(
    t,
    async (plant) => {
      await plant.start();
      await plant.leaveSession();
      await plant.publish(await plant.client(), { count: 60 });
      await plant.drained();
      await plant.collect(20);
    },
    { images: 2500 },
  );
  assert.deepEqual([...report.breaches], []);
});
