import assert from 'node:assert/strict';
import { test } from 'node:test';
import { next, openWindow, type Window } from '../../src/bridge/replay-window.js';
import type { Seq } from '../../src/model/ids.js';

const seq = (n: number) => n as Seq;
const sent = (window: Window, first: number, last: number) =>
  next(window, { type: 'sent', first: seq(first), last: seq(last), rows: last - first + 1 }).window;

test('acknowledgements in another order release only the unbroken run from the oldest', () => {
  let window = openWindow(seq(0));
  for (const [first, last] of [
    [1, 10],
    [11, 20],
    [21, 30],
  ] as const)
    window = sent(window, first, last);
  const third = next(window, { type: 'acknowledged', last: seq(30) });
  assert.equal(third.release, null);
  const first = next(third.window, { type: 'acknowledged', last: seq(10) });
  assert.equal(first.release, 10);
  const second = next(first.window, { type: 'acknowledged', last: seq(20) });
  assert.equal(second.release, 30);
  assert.deepEqual(second.window, { released: 30, after: 30, flights: [] });
});

test('losing the link forgets what was not released, even what was acknowledged behind a hole', () => {
  let window = openWindow(seq(4));
  window = sent(window, 5, 9);
  window = sent(window, 10, 14);
  window = next(window, { type: 'acknowledged', last: seq(14) }).window;
  window = next(window, { type: 'lost' }).window;
  assert.deepEqual(window, { released: 4, after: 4, flights: [] });
});

test('a batch out of order, or an answer to nothing, is a broken invariant', () => {
  const window = sent(openWindow(seq(0)), 1, 10);
  assert.throws(() => sent(window, 10, 12), { code: 'internal.assertion' });
  assert.throws(() => next(window, { type: 'acknowledged', last: seq(9) }), { code: 'internal.assertion' });
});

test('for random orders of acknowledgement, what is released is always acknowledged and never goes back', () => {
  let random = 42;
  const pick = (n: number) => {
    random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
    return (random >>> 8) % n;
  };
  for (let round = 0; round < 200; round++) {
    let window = openWindow(seq(0));
    const open = new Set<number>();
    const acknowledged = new Set<number>();
    let last = 0;
    let released = 0;
    for (let step = 0; step < 60; step++) {
      if (pick(2) === 0 || open.size === 0) {
        const first = last + 1;
        last += 1 + pick(5);
        window = sent(window, first, last);
        open.add(last);
      } else {
        const chosen = [...open][pick(open.size)] as number;
        open.delete(chosen);
        acknowledged.add(chosen);
        const result = next(window, { type: 'acknowledged', last: seq(chosen) });
        window = result.window;
        if (result.release !== null) {
          assert.ok(result.release > released);
          released = result.release;
        }
        assert.ok(
          [...open].every((end) => end > released),
          'nothing open has been released',
        );
      }
    }
    assert.equal(window.released, released);
  }
});
