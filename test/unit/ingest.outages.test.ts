import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LedgerEntry } from '../../src/ingest/historian.js';
import { checked, NO_OUTAGES, type OutageState, observe } from '../../src/ingest/outages.js';
import type { Epoch, GatewayId, Millis, Seq } from '../../src/model/ids.js';

const MINUTE = 60_000;
const RULES = { afterMs: 10 * MINUTE, withinMs: 60 * MINUTE };
const LINE = 'line-1' as GatewayId;

/** A gateway whose last batch came at minute `batch` with readings up to minute `newest`. */
function entry(batch: number, newest: number, epoch = 'e1', gateway = LINE): LedgerEntry {
  const [lastBatchAt, newestTs] = [(batch * MINUTE) as Millis, (newest * MINUTE) as Millis];
  return { gateway, epoch: epoch as Epoch, received: [], lost: [], holes: [], last: 1 as Seq, lastBatchAt, newestTs };
}

/** What is seen minute by minute. */
function see(state: OutageState, ...looks: [now: number, ...LedgerEntry[]][]): OutageState {
  return looks.reduce((before, [now, ...ledger]) => observe(before, ledger, (now * MINUTE) as Millis, RULES), state);
}

const proved = (state: OutageState, minute: number, incomplete = 0) =>
  checked(state, LINE, incomplete, (minute * MINUTE) as Millis);
const only = (state: OutageState) => state.cases.get(LINE);

test('silence that is shorter than an outage leaves no case', () => {
  assert.equal(only(see(NO_OUTAGES, [0, entry(0, 0)], [9, entry(9, 9)], [19, entry(19, 19)])), undefined);
});

test('a gateway that is back leaves a case from its last reading before the silence to its return', () => {
  const state = see(NO_OUTAGES, [0, entry(0, 0)], [200, entry(0, 0)], [360, entry(360, 5)]);
  const { from, to, ripe, overdue } = only(state)!;
  assert.deepEqual([from, to, ripe, overdue], [0, 360 * MINUTE, false, false]);
});

test('a case is ripe when the readings have passed the end of the outage, and closes when nothing is incomplete', () => {
  const back = see(NO_OUTAGES, [0, entry(0, 0)], [360, entry(360, 5)]);
  const caughtUp = see(back, [362, entry(362, 300)], [364, entry(364, 364)]);
  assert.equal(only(see(back, [362, entry(362, 300)]))?.ripe, false);
  assert.equal(only(caughtUp)?.ripe, true);
  assert.equal(only(proved(caughtUp, 364, 3))?.incomplete, 3);
  assert.equal(only(proved(caughtUp, 364)), undefined);
});

test('a long drain that advances is never overdue; one that stands still is', () => {
  let state = see(NO_OUTAGES, [0, entry(0, 0)], [1000, entry(1000, 1)]);
  for (let minute = 1005; minute < 1600; minute += 5) state = see(state, [minute, entry(minute, minute - 900)]);
  assert.equal(only(state)?.overdue, false);
  assert.equal(only(see(state, [1700, entry(1595, 695)]))?.overdue, true);
});

test('a case that does not become complete in time is overdue, stays, and closes when it does', () => {
  const ripe = see(NO_OUTAGES, [0, entry(0, 0)], [360, entry(360, 361)]);
  const checkedOnce = proved(ripe, 361, 2);
  assert.equal(only(see(checkedOnce, [369, entry(369, 369)]))?.overdue, false);
  let late = checkedOnce;
  for (let minute = 365; minute <= 430; minute += 5) late = see(late, [minute, entry(minute, minute)]);
  assert.deepEqual([only(late)?.overdue, only(late)?.incomplete], [true, 2]);
  assert.equal(only(proved(late, 430)), undefined);
});

test('a new spool file of the same gateway is the same gateway', () => {
  const state = see(NO_OUTAGES, [0, entry(0, 0)], [360, entry(0, 0), entry(360, 361, 'e2')]);
  assert.equal(only(state)?.from, 0);
});

test('a second outage before the first one is proved waits for its turn', () => {
  const first = see(NO_OUTAGES, [0, entry(0, 0)], [60, entry(60, 10)]);
  const second = see(first, [200, entry(200, 150)]);
  assert.deepEqual([only(second)?.from, only(second)?.to, only(second)?.ripe], [0, 60 * MINUTE, true]);
  const { from, to } = only(proved(second, 201))!;
  assert.deepEqual([from, to], [10 * MINUTE, 200 * MINUTE]);
});

test('a gateway that calls once an hour has its outages proved one after the other, and in time', () => {
  let state = see(NO_OUTAGES, [0, entry(0, 0)]);
  for (let hour = 1; hour < 10; hour++) {
    state = see(state, [hour * 60, entry(hour * 60, hour * 60 - 1)]);
    if (only(state)?.ripe) state = proved(state, hour * 60);
    assert.equal(only(state)?.overdue, false);
  }
  assert.equal(only(state)?.to, 540 * MINUTE);
});
