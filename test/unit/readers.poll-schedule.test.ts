import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PollSchedule } from '../../src/readers/poll-schedule.js';

test('due times do not drift, however long the cycles take within their period', () => {
  const schedule = new PollSchedule({ everyMs: 50, name: 'press/0', startMono: 1000 });
  let now = 1000;
  const first = schedule.next(now).dueMono;
  for (let k = 1; k <= 10_000; k++) {
    now = first + (k - 1) * 50 + (k % 49);
    assert.deepEqual(schedule.next(now), { dueMono: first + k * 50, missed: 0 });
  }
});

test('a cycle that takes longer than its period skips the due times it ran over, and counts them', () => {
  const schedule = new PollSchedule({ everyMs: 100, name: 'press/0', startMono: 0 });
  const { dueMono } = schedule.next(0);
  assert.deepEqual(schedule.next(dueMono + 99), { dueMono: dueMono + 100, missed: 0 });
  assert.deepEqual(schedule.next(dueMono + 350), { dueMono: dueMono + 400, missed: 2 });
  assert.deepEqual(schedule.next(dueMono + 1_000_050), { dueMono: dueMono + 1_000_100, missed: 9996 });
});

test('a timer that fires a moment early does not get the same due time again', () => {
  const schedule = new PollSchedule({ everyMs: 100, name: 'press/0', startMono: 0 });
  const { dueMono } = schedule.next(0);
  assert.deepEqual(schedule.next(dueMono - 0.4), { dueMono: dueMono + 100, missed: 0 });
});

test('groups of one period start spread, the same way every time, and within a second', () => {
  const phases = (everyMs: number) =>
    Array.from(
      { length: 200 },
      (_, i) => new PollSchedule({ everyMs, name: `asset-${i}/1/0`, startMono: 500 }).next(500).dueMono - 500,
    );
  assert.deepEqual(phases(1000), phases(1000));
  for (const everyMs of [10, 1000, 3_600_000]) {
    const width = Math.min(everyMs, 1000);
    const buckets = new Set(phases(everyMs).map((phase) => Math.floor((phase / width) * 10)));
    assert.deepEqual([...buckets].sort(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  }
});
