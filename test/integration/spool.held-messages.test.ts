import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { Intake } from '../../src/bridge/intake.js';
import { ReadingMap } from '../../src/bridge/reading-map.js';
import { Classes } from '../../src/bridge/when-full.js';
import { payloadsOf } from '../helpers/damage.js';
import { message, openSpool } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

test('a message that waits for room is let go when its publisher goes away, and comes once when it is sent again', async (t) => {
  const opened = await openSpool(t, join(tempDir(t), 'spool.db'));
  const { spool } = opened;
  let room = false;
  const intake = new Intake({
    spool,
    topics: ['plant/#'],
    readings: new ReadingMap([]),
    classes: new Classes('block', []),
    hasRoom: () => room,
  });
  t.after(() => intake.close());
  const outcomes: string[] = [];
  const admit = (n: number, isAbandoned?: () => boolean) =>
    intake.admit({ ...message(n), isAbandoned }, null, [], (error) => outcomes.push(error?.code ?? `m${n}`));
  let gone = false;
  admit(1, () => gone);
  admit(2);
  assert.equal(intake.stats().heldMessages, 2);
  gone = true;
  await until('the first is let go', () => outcomes.length === 1);
  assert.deepEqual(outcomes, ['spool.full']);
  assert.equal(intake.stats().heldMessages, 1);
  // The publisher is back.
  admit(1, () => false);
  room = true;
  await until('both', () => outcomes.length === 3);
  assert.deepEqual(await payloadsOf(opened), ['m2', 'm1']);
  assert.equal(intake.stats().heldMessages, 0);
});

test('what may be dropped passes what must wait, and each class keeps its order', async (t) => {
  const opened = await openSpool(t, join(tempDir(t), 'spool.db'));
  let kept = false;
  const intake = new Intake({
    spool: opened.spool,
    topics: ['plant/#'],
    readings: new ReadingMap([]),
    classes: new Classes('block', [{ topics: ['plant/trace/#'], whenFull: 'drop-oldest' }]),
    hasRoom: (droppable) => droppable || kept,
  });
  t.after(() => intake.close());
  let done = 0;
  for (let n = 0; n < 20; n++) {
    const topic = n % 2 === 0 ? 'plant/count' : 'plant/trace/x';
    intake.admit({ ...message(n), topic }, null, [], () => done++);
  }
  await until('the droppable ones', () => done === 10);
  assert.equal(intake.stats().heldMessages, 10);
  kept = true;
  await until('all', () => done === 20);
  const odd = Array.from({ length: 10 }, (_, n) => `m${2 * n + 1}`);
  const even = Array.from({ length: 10 }, (_, n) => `m${2 * n}`);
  assert.deepEqual(await payloadsOf(opened), [...odd, ...even]);
});
