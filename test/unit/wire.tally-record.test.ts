import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TALLY_TOPIC } from '../../src/model/tally.js';
import { parseTallies } from '../../src/wire/tally.js';

const good = ['press', 'temperature', 3_600_000, 5, 9, 3, 77];
const parse = (record: unknown, topic = TALLY_TOPIC) =>
  parseTallies({ topic, payload: Buffer.from(typeof record === 'string' ? record : JSON.stringify(record)) });

test('a record of tallies is read', () => {
  assert.deepEqual(parse({ upTo: 9, tallies: [good], more: 1 }), {
    upTo: 9,
    tallies: [{ asset: 'press', metric: 'temperature', hour: 3_600_000, first: 5, last: 9, count: 3, checksum: 77 }],
  });
});

test('anything else is no record: it stays an opaque message and does no harm', () => {
  assert.equal(parse({ upTo: 9, tallies: [good] }, 'plant/tally'), undefined);
  for (const record of ['', '{', 'null', '[]', {}, { upTo: 0, tallies: [] }, { upTo: 9 }, { upTo: 9, tallies: [7] }])
    assert.equal(parse(record), undefined, JSON.stringify(record));
  const wrong: [number, unknown][] = [
    [0, 7],
    [1, null],
    [2, 3_600_001],
    [2, '0'],
    [3, 0],
    [3, 10],
    [4, 10],
    [5, 6],
    [5, 0],
    [6, -1],
    [6, 2 ** 32],
    [6, 0.5],
  ];
  for (const [at, value] of wrong)
    assert.equal(parse({ upTo: 9, tallies: [good, good.with(at, value as never)] }), undefined, `${at} ${value}`);
});
