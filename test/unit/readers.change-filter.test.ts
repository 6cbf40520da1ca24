import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Millis } from '../../src/model/ids.js';
import { GOOD } from '../../src/model/reading.js';
import { ChangeFilter, type ReportRule } from '../../src/readers/change-filter.js';
import type { Sample, SampleBatch } from '../../src/readers/driver.js';

const HEARTBEAT_MS = 60_000;
const TO = 5 as Millis;

function setUp(rules: Record<string, Partial<ReportRule>>) {
  const time = { mono: 0 };
  const ofDevice = new Map(
    Object.entries(rules).map(([tag, rule]) => [tag, { deadband: 0, heartbeatMs: HEARTBEAT_MS, ...rule }]),
  );
  const filter = new ChangeFilter(new Map([['press', ofDevice]]), { now: () => 0 as Millis, mono: () => time.mono });
  const give = (values: Record<string, Sample['value']>, more: Partial<SampleBatch> & { quality?: number } = {}) => {
    const samples = Object.entries(values).map(([tag, value]): Sample => {
      return { tag, type: 'f', value, quality: more.quality ?? GOOD };
    });
    return filter.pass({ device: 'press', ts: TO, samples, ...more })?.samples.map(({ tag, value }) => [tag, value]);
  };
  return { time, give };
}

test('a value is reported when it changes, and a tag without a rule every time', () => {
  const { give } = setUp({ a: {} });
  assert.deepEqual(give({ a: 1, b: 1 }), [
    ['a', 1],
    ['b', 1],
  ]);
  assert.deepEqual(give({ a: 1, b: 1 }), [['b', 1]]);
  assert.deepEqual(give({ a: 2, b: 1 }), [
    ['a', 2],
    ['b', 1],
  ]);
  assert.equal(give({ a: 2 }), undefined);
});

test('a slow drift is seen, because a value is compared with the one reported last', () => {
  const { give } = setUp({ a: { deadband: 1 } });
  const reported: unknown[] = [];
  for (let i = 0; i <= 20; i++) reported.push(...(give({ a: i / 4 }) ?? []));
  assert.deepEqual(reported, [
    ['a', 0],
    ['a', 1],
    ['a', 2],
    ['a', 3],
    ['a', 4],
    ['a', 5],
  ]);
});

test('big integers, texts and truth values are compared exactly', () => {
  const { give } = setUp({ n: {}, d: { deadband: 10 }, s: {}, b: {} });
  const first = { n: 2n ** 63n, d: 2n ** 63n, s: 'x', b: true };
  assert.equal(give(first)?.length, 4);
  assert.equal(give({ ...first }), undefined);
  assert.deepEqual(give({ ...first, n: 2n ** 63n + 1n, d: 2n ** 63n + 9n }), [['n', 2n ** 63n + 1n]]);
  assert.deepEqual(give({ ...first, n: 2n ** 63n + 1n, d: 2n ** 63n + 10n, b: false }), [
    ['d', 2n ** 63n + 10n],
    ['b', false],
  ]);
});

test('an unchanged value is reported at its heartbeat, counted from its last report', () => {
  const { time, give } = setUp({ a: {} });
  give({ a: 1 });
  time.mono = HEARTBEAT_MS - 1;
  assert.equal(give({ a: 1 }), undefined);
  time.mono = HEARTBEAT_MS;
  assert.deepEqual(give({ a: 1 }), [['a', 1]]);
  time.mono = HEARTBEAT_MS * 2 - 1;
  assert.equal(give({ a: 1 }), undefined);
});

test('a change of the quality, and the first value after a hole, are always reported', () => {
  const { give } = setUp({ a: { deadband: 100 } });
  give({ a: 1 });
  assert.deepEqual(give({ a: null }, { quality: 24 }), [['a', null]]);
  assert.equal(give({ a: null }, { quality: 24 }), undefined);
  assert.deepEqual(give({ a: 1 }), [['a', 1]]);
  const gap = { from: 1 as Millis, to: TO, missed: 3, cycles: 3, reason: 'device-unreachable' } as const;
  assert.deepEqual(give({ a: 1 }, { gap }), [['a', 1]]);
  const tagGaps = [{ tag: 'a', from: 1 as Millis, to: TO, missed: 1 }];
  assert.deepEqual(give({ a: 1 }, { tagGaps }), [], 'the gap record goes out even when no value does');
});

test('a message of a whole group goes out whole or not at all', () => {
  const { give } = setUp({ a: {}, b: {} });
  give({ a: 1, b: 1 }, { message: 'all' });
  assert.equal(give({ a: 1, b: 1 }, { message: 'all' }), undefined);
  assert.deepEqual(give({ a: 1, b: 2 }, { message: 'all' }), [
    ['a', 1],
    ['b', 2],
  ]);
});

test('each tag is compared with its own last value, in whatever order and company they come', () => {
  const { give } = setUp({ a: {}, b: {}, c: {} });
  give({ a: 1, x: 0, b: 2, c: 3 });
  assert.equal(give({ c: 3, a: 1, b: 2 }), undefined);
  assert.deepEqual(give({ b: 2, c: 4, a: 1 }), [['c', 4]]);
  assert.deepEqual(give({ a: 1, x: 0, c: 4 }), [['x', 0]]);
  assert.equal(give({ a: 1, b: 2, c: 4 }), undefined);
});
