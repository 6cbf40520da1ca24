import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AckJudge } from '../../src/bridge/ack-judge.js';
import { Unconfirmed } from '../../src/bridge/unconfirmed.js';
import { type Ack, encodeAck } from '../../src/wire/ack.js';
import { source } from '../helpers/rows.js';

const SILENCE_MS = 20_000;
const batch = (n: number) => ({ first: n * 10 + 1, last: n * 10 + 10 });
const ack = (through: number, ...missing: [number, number][]): Ack => ({
  source: source(),
  from: 1,
  through,
  missing: missing.map(([from, to]) => ({ from, to })),
});
function sent(count: number) {
  const plan = new Unconfirmed<{ first: number; last: number }>(SILENCE_MS);
  for (let n = 0; n < count; n++) plan.add(batch(n), n);
  return plan;
}
const numbers = (batches: { first: number }[]) => batches.map(({ first }) => (first - 1) / 10);
const due = (plan: ReturnType<typeof sent>, now: number, max = 100) => numbers(plan.due(now, max));

test('a statement confirms what it covers, in whatever order it was sent', () => {
  const plan = sent(5);
  assert.deepEqual(numbers(plan.confirm(ack(30, [11, 20]), 100)), [0, 2]);
  assert.deepEqual(numbers(plan.confirm(ack(50), 200)), [1, 3, 4]);
  assert.equal(plan.nextDueAt, Number.POSITIVE_INFINITY);
});

test('of a silent consumer only the oldest batch goes again, ever more rarely', () => {
  const plan = sent(100);
  const times: number[] = [];
  for (let now = 0; now < 3_600_000; now += 1_000) {
    const again = due(plan, now);
    if (again.length === 0) continue;
    assert.deepEqual(again, [0]);
    times.push(now);
  }
  assert.ok(times.length >= 8 && times.length <= 20, `${times.length} in an hour`);
});

test('what is listed as missing goes again soon, and then with longer waits', () => {
  const plan = sent(3);
  plan.confirm(ack(30, [11, 20]), 100);
  assert.deepEqual(due(plan, 200), []);
  assert.deepEqual(due(plan, 1_200), [1]);
  plan.confirm(ack(30, [11, 20]), 1_300);
  assert.deepEqual(due(plan, 2_400), []);
  assert.deepEqual(due(plan, 3_400), [1]);
});

test('a broker that has lost all of it: the answer to the oldest batch sets the others going, within the window', () => {
  const plan = sent(10);
  assert.deepEqual(due(plan, SILENCE_MS + 1), [0]);
  assert.deepEqual(numbers(plan.confirm(ack(10), SILENCE_MS + 100)), [0]);
  assert.deepEqual(due(plan, SILENCE_MS + 1_200, 4), [1, 2, 3, 4]);
  assert.deepEqual(due(plan, SILENCE_MS + 1_200), [5, 6, 7, 8, 9]);
  assert.deepEqual(due(plan, SILENCE_MS + 1_300), []);
});

test('a consumer that works off its queue gets nothing twice', () => {
  const plan = sent(50);
  for (let n = 0; n < 50; n++) {
    const now = (n + 1) * 15_000;
    assert.deepEqual(due(plan, now), []);
    assert.deepEqual(numbers(plan.confirm(ack((n + 1) * 10), now)), [n]);
  }
});

test('a refusal takes out the batch that it names, and no part of another', () => {
  const plan = sent(3);
  assert.equal(plan.take(1, 30), undefined);
  assert.equal(plan.take(11, 15), undefined);
  assert.deepEqual(plan.take(11, 20), batch(1));
  assert.equal(plan.take(11, 20), undefined);
});

test('a statement is believed only if it can be true', () => {
  const judge = new AckJudge(source(), 100);
  const word = (over: Partial<Ack>, retained = false, released = 50) => {
    const verdict = judge.judge(encodeAck({ ...ack(80), ...over }), retained, released);
    return typeof verdict === 'string' ? verdict : 'believed';
  };
  assert.equal(word({}), 'believed');
  assert.equal(word({ through: 100 }), 'believed', 'an earlier process may have sent it');
  assert.equal(word({ through: 101 }), 'beyond');
  assert.equal(word({ refused: { from: 90, to: 101, reason: '' } }), 'beyond');
  judge.sent(120);
  assert.equal(word({ through: 120 }), 'believed');
  assert.equal(word({ through: 121 }), 'beyond');
  assert.equal(word({ source: source('line-2') }), 'foreign');
  assert.equal(word({ source: source('line-1', 'another') }), 'foreign');
  assert.equal(word({ through: 49 }), 'older');
  assert.equal(word({ through: 49, ask: true }), 'believed', 'a question may be about long ago');
  assert.equal(word({}, true), 'retained');
  assert.equal(judge.judge(Buffer.from('{'), false, 0), 'malformed');
  assert.deepEqual(judge.totals, { believed: 4, malformed: 1, foreign: 2, beyond: 3, older: 1, retained: 1 });
});
