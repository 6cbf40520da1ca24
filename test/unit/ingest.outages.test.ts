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
  assert.equal(only(checked(caughtUp, LINE, 3))?.incomplete, 3);
  assert.equal(only(checked(caughtUp, LINE, 0)), undefined);
});

test('a long drain that advances is never overdue; one that stands still is', () => {
  let state = see(NO_OUTAGES, [0, entry(0, 0)], [1000, entry(1000, 1)]);
  for (let minute = 1030; minute < 1600; minute += 30) state = see(state, [minute, entry(minute, minute - 900)]);
  assert.equal(only(state)?.overdue, false);
  assert.equal(only(see(state, [1700, entry(1600, 690)]))?.overdue, true);
});

test('a case that does not become complete in time is overdue, stays, and closes when it does', () => {
  const ripe = see(NO_OUTAGES, [0, entry(0, 0)], [360, entry(360, 361)]);
  const checkedOnce = checked(ripe, LINE, 2);
  assert.equal(only(see(checkedOnce, [400, entry(400, 400)]))?.overdue, false);
  const late = see(checkedOnce, [430, entry(430, 430)]);
  assert.deepEqual([only(late)?.overdue, only(late)?.incomplete], [true, 2]);
  assert.equal(only(checked(late, LINE, 0)), undefined);
});

test('a new spool file of the same gateway is the same gateway', () => {
  const state = see(NO_OUTAGES, [0, entry(0, 0)], [360, entry(0, 0), entry(360, 361, 'e2')]);
  assert.equal(only(state)?.from, 0);
});

test('a second outage before the first one is proved widens the case', () => {
  const first = see(NO_OUTAGES, [0, entry(0, 0)], [60, entry(60, 10)]);
  const { from, to } = only(see(first, [200, entry(200, 20)]))!;
  assert.deepEqual([from, to], [0, 200 * MINUTE]);
});
