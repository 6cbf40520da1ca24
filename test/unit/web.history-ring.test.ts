import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Millis } from '../../src/model/ids.js';
import { History, type Sample } from '../../src/web/history.js';

const sample = (t: number, rest: Partial<Sample> = {}): Sample => ({
  t: t as Millis,
  rows: t * 10,
  bytes: t * 1_000,
  oldestAgeMs: 0,
  receivedPerS: 1,
  acknowledgedPerS: 1,
  upstream: 'online',
  ...rest,
});

test('a history that is full forgets the oldest and stays in order', () => {
  const history = new History(4);
  for (let t = 1; t <= 11; t++) history.push(sample(t, { upstream: t === 9 ? 'backoff' : 'online' }));
  const columns = history.columns();
  assert.deepEqual(columns.t, [8, 9, 10, 11]);
  assert.deepEqual(columns.rows, [80, 90, 100, 110]);
  assert.deepEqual(columns.upstream, ['online', 'backoff', 'online', 'online']);
  assert.equal(history.size, 4);
});

test('a young history holds what there was', () => {
  const history = new History(4);
  assert.deepEqual(history.columns().t, []);
  history.push(sample(1));
  history.push(sample(2));
  assert.deepEqual(history.columns().t, [1, 2]);
});

test('a clock that was set back starts the history again, also when the ring has wrapped', () => {
  const history = new History(3);
  for (const t of [10, 11, 12, 13]) history.push(sample(t));
  history.push(sample(5));
  history.push(sample(6));
  assert.deepEqual(history.columns().t, [5, 6]);
});

test('a rate that is not known is null on the wire', () => {
  const history = new History(2);
  history.push(sample(1, { receivedPerS: Number.NaN }));
  assert.deepEqual(JSON.parse(JSON.stringify(history.columns())).receivedPerS, [null]);
});
