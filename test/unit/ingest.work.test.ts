import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Work } from '../../src/ingest/work.js';
import type { Millis } from '../../src/model/ids.js';

const OUTCOME = { stored: 90, duplicates: 6, conflicts: 1, gaps: 1, quarantined: 1, opaque: 1 };

function openWork() {
  const time = { ms: 0 };
  return { time, work: new Work({ now: () => 0 as Millis, mono: () => time.ms }) };
}

test('a worker counts what it did: what failed comes again and is not counted as done', () => {
  const { time, work } = openWork();
  const [first, second] = [work.begin(1000), work.begin(500)];
  assert.equal(work.status().batchesInHand, 2);
  work.stored(OUTCOME, 100);
  time.ms = 20;
  first(true);
  second(false);
  const { batches, bytes, rows, failures, batchesInHand, stored, duplicates } = work.status();
  assert.deepEqual(
    { batches, bytes, rows, failures, batchesInHand },
    { batches: 1, bytes: 1000, rows: 100, failures: 1, batchesInHand: 0 },
  );
  assert.deepEqual({ stored, duplicates }, { stored: 90, duplicates: 6 });
  assert.deepEqual([work.storeDuration.count, work.storeDuration.sum], [1, 0.02]);
});

test('the rate is that of the last seconds, and falls to nothing when nothing comes', () => {
  const { time, work } = openWork();
  for (time.ms = 0; time.ms <= 30_000; time.ms += 100) work.stored(OUTCOME, 100);
  assert.ok(Math.abs(work.status().rowsPerSecond - 1000) <= 50, `${work.status().rowsPerSecond}`);
  time.ms = 60_000;
  assert.equal(work.status().rowsPerSecond, 0);
});
