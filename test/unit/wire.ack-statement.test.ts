import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ackOf } from '../../src/ingest/ack-of.js';
import type { LedgerEntry } from '../../src/ingest/historian.js';
import { holesIn } from '../../src/ingest/ledger.js';
import { ACK_BYTES_MAX, ACK_RANGES_MAX, type Ack, covers, encodeAck, parseAck } from '../../src/wire/ack.js';
import { source } from '../helpers/rows.js';

const ack = (over: Partial<Ack> = {}): Ack => ({ source: source(), from: 1, through: 100, missing: [], ...over });
const bytes = (value: unknown) => Buffer.from(JSON.stringify(value));

test('a statement comes back as it was', () => {
  for (const one of [
    ack(),
    ack({ from: 40, missing: [{ from: 50, to: 60 }] }),
    ack({ through: 0, refused: { from: 7, to: 9, reason: 'format 2' } }),
    ack({
      missing: [
        { from: 1, to: 1 },
        { from: 3, to: 100 },
      ],
      ask: true,
    }),
  ])
    assert.deepEqual(parseAck(encodeAck(one)), one);
});

test('the form in the documentation is read, with keys that are unknown', () => {
  const text =
    '{"v": 1, "gw": "line-1", "ep": "01J9ZQ3K6W8F", "through": 8123955, "missing": [[8123001, 8123500]], "x": 1}';
  assert.deepEqual(
    parseAck(Buffer.from(text)),
    ack({ through: 8_123_955, missing: [{ from: 8_123_001, to: 8_123_500 }] }),
  );
});

const good = { v: 1, gw: 'line-1', ep: 'e', through: 10, missing: [] as unknown };
for (const [name, value] of Object.entries({
  'no JSON': Buffer.from('taken'),
  'a list': bytes([good]),
  null: bytes(null),
  'another version': bytes({ ...good, v: 2 }),
  'no gateway': bytes({ ...good, gw: undefined }),
  'an epoch that is no text': bytes({ ...good, ep: 7 }),
  'a through that is no seq': bytes({ ...good, through: -1 }),
  'a through beyond exact numbers': bytes({ ...good, through: 2 ** 60 }),
  'a through in quotes': bytes({ ...good, through: '10' }),
  'missing seqs beyond through': bytes({ ...good, missing: [[9, 11]] }),
  'missing ranges that overlap': bytes({
    ...good,
    missing: [
      [1, 5],
      [5, 6],
    ],
  }),
  'a range that ends before it begins': bytes({ ...good, missing: [[5, 4]] }),
  'a range of three': bytes({ ...good, missing: [5] }),
  'a refusal without a reason': bytes({ ...good, refused: [1, 2] }),
  'too many ranges': bytes({
    ...good,
    through: 9e9,
    missing: Array.from({ length: ACK_RANGES_MAX + 1 }, (_, n) => [2 * n + 1, 2 * n + 1]),
  }),
  'a flood': Buffer.alloc(ACK_BYTES_MAX + 1, ' '),
}))
  test(`${name} is no statement`, () => assert.equal(parseAck(value), undefined));

test('a range is covered only as a whole', () => {
  const one = ack({ from: 10, missing: [{ from: 50, to: 60 }] });
  assert.ok(covers(one, { from: 10, to: 49 }) && covers(one, { from: 61, to: 100 }));
  for (const range of [
    { from: 9, to: 20 },
    { from: 40, to: 50 },
    { from: 60, to: 70 },
    { from: 55, to: 56 },
    { from: 90, to: 101 },
  ])
    assert.ok(!covers(one, range), JSON.stringify(range));
});

test('of a ledger with thousands of holes every statement fits, is true, and decides about the batch that it is for', () => {
  const received = Array.from({ length: 5_000 }, (_, n) => ({ from: 10 * n + 2, to: 10 * n + 9 }));
  const holes = holesIn(received);
  const entry = { holes, last: received.at(-1)!.to } as unknown as LedgerEntry;
  for (const { from, to } of [received[0]!, received[99]!, received[2_500]!, received.at(-1)!]) {
    const one = parseAck(encodeAck(ackOf(source(), entry, { from, to })));
    assert.ok(one, 'it is read');
    assert.ok(covers(one, { from, to }), 'it tells of the batch');
    for (const hole of holes) assert.ok(!covers(one, hole), `${hole.from} is missing`);
  }
});

test('of a gateway that nothing has come from, nothing is acknowledged', () => {
  const one = ackOf(source(), undefined, { from: 1, to: 10 });
  assert.ok(!covers(one, { from: 1, to: 1 }));
});
