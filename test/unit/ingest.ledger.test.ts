import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holesIn, mergeRanges, runsOf } from '../../src/ingest/ledger.js';
import { batchOf, rowsFrom } from '../helpers/batches.js';
import { openHistorian } from '../helpers/historian.js';
import { Random } from '../helpers/random.js';

test('rows fall into runs of consecutive seqs', () => {
  assert.deepEqual(runsOf([1, 2, 3, 7, 9, 10].map((seq) => ({ seq }))), [
    { from: 1, to: 3 },
    { from: 7, to: 7 },
    { from: 9, to: 10 },
  ]);
  assert.deepEqual(runsOf([]), []);
});

test('a missing head is a hole, because every epoch starts at 1', () => {
  assert.deepEqual(holesIn([{ from: 5, to: 9 }]), [{ from: 1, to: 4 }]);
  assert.deepEqual(holesIn([]), []);
});

test('the ledger of random batches in random order is the set of their seqs', async (t) => {
  for (let seed = 1; seed <= 8; seed++) {
    const { historian } = await openHistorian(t);
    const random = new Random(seed);
    const seen = new Set<number>();
    for (let n = 0; n < 60; n++) {
      const from = random.int(1, 300);
      const to = from + random.int(0, 12);
      for (let seq = from; seq <= to; seq++) seen.add(seq);
      await historian.ingest(batchOf(rowsFrom(from, to)));
    }
    const entry = historian.ledger()[0]!;
    const expected = runsOf([...seen].sort((a, b) => a - b).map((seq) => ({ seq })));
    assert.deepEqual(entry.received, expected, `seed ${seed}`);
    assert.deepEqual(mergeRanges([...expected, ...entry.holes]), [{ from: 1, to: entry.last }]);
    assert.equal(historian.totals().stored, seen.size);
  }
});
