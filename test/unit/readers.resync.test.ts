import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReadRequest } from '../../src/readers/modbus/requests.js';
import { Resync } from '../../src/readers/modbus/resync.js';

const TIMEOUT_MS = 100;
const block: ReadRequest = { fc: 3, unit: 1, address: 40, quantity: 6 };

/** Asks until no length is left, without an answer to anything. */
function unansweredProbes(resync: Resync): number[] {
  const quantities: number[] = [];
  for (let probe = resync.probe(); probe; probe = resync.probe()) {
    quantities.push(probe.quantity);
    resync.unansweredBy(probe, 0);
  }
  return quantities;
}

test('no length is asked for again while an answer of that length may be under way', () => {
  const resync = new Resync(block, TIMEOUT_MS);
  assert.equal(resync.isNeeded(0), false);
  resync.unansweredBy(block, 0);
  assert.equal(resync.isNeeded(0), true);
  const quantities = unansweredProbes(resync);
  assert.equal(new Set(quantities).size, quantities.length);
  assert.ok(quantities.length >= 8 && !quantities.includes(6), quantities.join());
  assert.deepEqual(quantities.slice(0, 5), [1, 2, 3, 4, 5], 'first what is known to exist');
});

test('after an answered probe all lengths are free again, and the next one is another', () => {
  const resync = new Resync(block, TIMEOUT_MS);
  resync.unansweredBy(block, 0);
  const first = resync.probe()?.quantity;
  resync.settled();
  assert.equal(resync.isNeeded(0), false);
  resync.unansweredBy(block, 0);
  assert.notEqual(resync.probe()?.quantity, first);
});

test('a unit that answers nothing is left in silence, and trusted again after it', () => {
  const resync = new Resync(block, TIMEOUT_MS);
  resync.unansweredBy(block, 0);
  unansweredProbes(resync);
  assert.equal(resync.probe(), undefined);
  assert.equal(resync.isNeeded(TIMEOUT_MS * 10 - 1), true);
  assert.equal(resync.isNeeded(TIMEOUT_MS * 10), false);
});

test('bits are probed in whole bytes, and never beyond the last address', () => {
  const coils = new Resync({ fc: 1, unit: 1, address: 0xffe0, quantity: 20 }, TIMEOUT_MS);
  coils.unansweredBy({ fc: 1, unit: 1, address: 0xffe0, quantity: 20 }, 0);
  assert.deepEqual(unansweredProbes(coils), [8, 16, 32]);
  const nothing = new Resync(undefined, TIMEOUT_MS);
  nothing.unansweredBy(block, 0);
  assert.equal(nothing.probe(), undefined);
});
