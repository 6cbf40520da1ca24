import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { HoldfastError } from '../../src/lib/errors.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { pack, unpack } from '../../src/wire/msgpack.js';
import { encodeRows } from '../../src/wire/rows.js';
import { Random } from '../helpers/random.js';
import { randomRows } from '../helpers/random-rows.js';
import { gapRow, opaqueRow, reading, readingRow, source, T0 } from '../helpers/rows.js';

const good = encodeColumns(source(), [
  readingRow(7, reading('f', 1.5)),
  readingRow(8, reading('b', true, { quality: 24 }), { retain: true }),
  readingRow(10, reading('s', 'x')),
  opaqueRow(11, Buffer.from('raw')),
  gapRow(12, 'press01', null, { from: T0 as never, to: (T0 + 5) as never, reason: 'device-unreachable' }),
]);

function changed(change: Record<string, unknown>): Buffer {
  const envelope = Object.entries({ ...(unpack(good) as object), ...change });
  return pack(Object.fromEntries(envelope.filter(([, value]) => value !== undefined)));
}

function refusal(bytes: Uint8Array, code = 'wire.malformed'): string {
  try {
    decodeBatch(bytes);
  } catch (error) {
    assert.ok(error instanceof HoldfastError, String(error));
    assert.equal(error.code, code);
    return error.message;
  }
  throw new assert.AssertionError({ message: 'the batch was read' });
}

test('an unknown format version is told apart from damage, unknown keys are not minded', () => {
  assert.match(refusal(changed({ v: 2 }), 'wire.version'), /format 2/);
  refusal(changed({ v: 'one' }));
  assert.equal(decodeBatch(changed({ future: [1, 2] })).rows.length, 5);
});

test('columns that contradict each other are refused with what is wrong', () => {
  for (const [change, message] of [
    [{ n: 4 }, /i has 5 rows, not 4/],
    [{ x: [1] }, /x has 1 rows/],
    [{ t: [0, 0, 0, 0] }, /t has 4 rows/],
    [{ s: [1] }, /s has 1 rows/],
    [{ s: [1, 1, 0, 1, 1] }, /does not rise/],
    [{ s: undefined }, /f and l disagree/],
    [{ f: 6 }, /f and l disagree/],
    [{ l: 13 }, /f and l disagree/],
    [{ f: 0 }, /f is no seq/],
    [{ l: -1 }, /l is no seq/],
    [{ i: [0, 1, 2, 3, 9] }, /row 4 has no series/],
    [{ i: [0, 1, 2, 3, -1] }, /row 4 has no series/],
    [{ t: [0, 0, 0.5, 0, 0] }, /row 2 has no time/],
    [{ t0: 'now' }, /t0/],
    [{ gw: '' }, /gw/],
    [{ ep: 5 }, /ep/],
    [{ k: 'x' }, /k is no list/],
    [{ k: [['t', 'z', 'a', 'm']] }, /unknown type/],
    [{ k: [['', 'f', 'a', 'm']] }, /no topic/],
    [{ k: [['t', 'f', 'a']], i: [0, 0, 0, 0, 0] }, /no metric/],
    [{ k: [['t', 'f']], i: [0, 0, 0, 0, 0] }, /no asset/],
    [{ x: ['no float', true, 'x', Buffer.of(1), {}] }, /seq 7 does not fit type f/],
    [{ q: [1] }, /q/],
    [{ q: [9, 24] }, /q names no row/],
    [{ q: [1, 24, 0, 24] }, /q names no row/],
    [{ q: [1, 'bad'] }, /q holds no quality/],
    [{ rt: [5] }, /rt names no row/],
    [{ lost: [[5, 4, 'x']] }, /ends before it begins/],
    [{ lost: [[1, 2]] }, /lost holds no range/],
    [{ hist: 1 }, /hist/],
  ] as const)
    assert.match(refusal(changed(change)), message, JSON.stringify(change));
});

test('a batch of nothing at all is refused', () => {
  refusal(changed({ n: 0, i: [], t: [], x: [], q: undefined, rt: undefined, s: undefined }));
  refusal(Buffer.alloc(0));
  refusal(Buffer.from('hello'));
  refusal(Buffer.from('[]'));
  refusal(pack([]));
  refusal(pack({}));
});

test('a decompression bomb and a flood of rows end at the limits', () => {
  const limits = { inflatedBytesMax: 1000, rowsMax: 4 };
  assert.throws(() => decodeBatch(gzipSync(Buffer.alloc(100_000)), limits), { code: 'wire.malformed' });
  assert.throws(() => decodeBatch(good, limits), /more than 4 rows/);
  assert.throws(() => decodeBatch(good, { inflatedBytesMax: 10, rowsMax: 100 }), /larger than 10 bytes/);
  // A header that promises four thousand million rows costs nothing.
  refusal(Buffer.from([0x81, 0xa1, 0x78, 0xdd, 0xff, 0xff, 0xff, 0xff]));
});

test('cut or damaged bytes are refused or read, never anything else', () => {
  const random = new Random(23);
  const rows = randomRows(random, 20);
  for (const bytes of [
    encodeColumns(source(), rows),
    gzipSync(encodeColumns(source(), rows)),
    encodeRows(source(), rows, 'json'),
    encodeRows(source(), rows, 'msgpack'),
  ])
    for (let n = 0; n < 1500; n++) {
      const broken = Buffer.from(random.chance(0.2) ? bytes.subarray(0, random.int(0, bytes.length - 1)) : bytes);
      if (broken.length > 0) broken[random.int(0, broken.length - 1)] = random.int(0, 255);
      try {
        decodeBatch(broken);
      } catch (error) {
        assert.ok(error instanceof HoldfastError && error.code.startsWith('wire.'), String(error));
      }
    }
});

test('rows of two gateways or in falling order make no batch', () => {
  const row = { seq: 1, gw: 'a', ep: 'e', topic: 't', asset: 'x', metric: 'm', ts: 1, type: 'f', q: 192, value: 1 };
  assert.equal(decodeBatch(pack([row])).rows.length, 1);
  assert.equal(decodeBatch(Buffer.from(JSON.stringify(row))).rows.length, 1);
  refusal(pack([row, { ...row, seq: 2, gw: 'b' }]));
  refusal(pack([row, row]));
  refusal(pack([{ ...row, q: 'good' }]));
  refusal(pack([{ ...row, type: 'p' }]));
});
