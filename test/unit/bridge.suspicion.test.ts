import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accused, cautionOf, nextSuspicion, type Suspicion } from '../../src/bridge/suspicion.js';
import type { Seq } from '../../src/model/ids.js';

const batch = (first: number, last: number) => ({ first: first as Seq, last: last as Seq, rows: last - first + 1 });
const drop = (now: Suspicion | null, first: number, last: number, alone = true) =>
  nextSuspicion(now, { type: 'dropped', batch: batch(first, last), alone, cause: 'reset' });
const released = (now: Suspicion | null, upTo: number) => nextSuspicion(now, { type: 'released', upTo: upTo as Seq });

test('two links that end at the same row: one batch at a time from then on', () => {
  const once = drop(null, 1, 500, false);
  assert.equal(cautionOf(once), null);
  const twice = drop(once, 1, 500, false);
  assert.deepEqual(cautionOf(twice), { until: 500, rowsMax: Number.POSITIVE_INFINITY });
  assert.equal(released(twice, 500), null, 'it went through after all');
});

test('a line that flaps at changing places accuses nobody', () => {
  let now: Suspicion | null = null;
  for (let first = 1; first < 10_000; first += 100) {
    now = drop(now, first, first + 99, false);
    assert.equal(accused(now), null);
    assert.notEqual(cautionOf(now)?.rowsMax, 50);
  }
});

test('three ends alone prove the batch guilty; then each end halves it, and each success goes on behind it', () => {
  // Row 300 ends every link.
  let now: Suspicion | null = null;
  let [first, links] = [1, 0];
  while (accused(now) === null) {
    assert.ok(++links < 30, 'it ends');
    const rowsMax = Math.min(cautionOf(now)?.rowsMax ?? 500, 500);
    let last = Math.min(first + rowsMax - 1, 500);
    while (last < 300) {
      now = released(now, last);
      first = last + 1;
      last = Math.min(first + rowsMax - 1, 500);
    }
    now = drop(now, first, last);
  }
  assert.equal(accused(now), 300);
  assert.equal(first, 300);
});

test('named by the cloud: halved at once, and a single row is accused at once', () => {
  const refused = (now: Suspicion | null, first: number, last: number) =>
    nextSuspicion(now, { type: 'refused', batch: batch(first, last), cause: 'payload' });
  const half = refused(null, 1, 9);
  assert.deepEqual(cautionOf(half), { until: 9, rowsMax: 5 });
  assert.equal(accused(refused(half, 4, 4)), 4);
});

test('when another row fares no better, the accusation is dropped but the care stays', () => {
  let now: Suspicion | null = null;
  for (let n = 0; n < 3; n++) now = drop(now, 7, 7);
  assert.equal(accused(now), 7);
  now = nextSuspicion(now, { type: 'cleared' });
  assert.equal(accused(now), null);
  assert.ok(cautionOf(now));
});
