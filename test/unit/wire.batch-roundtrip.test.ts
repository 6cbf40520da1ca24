import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Seq } from '../../src/model/ids.js';
import type { SpoolRow } from '../../src/model/row.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { compress } from '../../src/wire/compress.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { parseGapPayload } from '../../src/wire/gap.js';
import { parseReadingPayload } from '../../src/wire/reading.js';
import { encodeRows } from '../../src/wire/rows.js';
import { Random } from '../helpers/random.js';
import { randomRows } from '../helpers/random-rows.js';
import { opaqueRow, reading, readingRow, source, T0 } from '../helpers/rows.js';

/** What a row must look like at the other end, from the row alone. */
function expected(row: SpoolRow): object {
  const { seq, topic, type, asset, metric, retain } = row;
  const head = { seq, topic, retain, type, ts: row.deviceTs ?? row.enqueuedAt, quality: 192 };
  if (type === 'p') return { ...head, asset: null, metric: null, payload: Buffer.from(row.payload) };
  if (type === 'g') return { ...head, asset, metric, gap: parseGapPayload(row.payload) };
  const parsed = parseReadingPayload(row.payload, type);
  assert.ok(!('problem' in parsed));
  return { ...head, asset, metric, value: plain(parsed.value), quality: parsed.quality };
}

function plain(value: unknown): unknown {
  if (Object.is(value, -0)) return 0;
  if (value instanceof Uint8Array) return Buffer.from(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
  return value;
}

test('random rows of every type survive columns, with and without gzip', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const rows = randomRows(new Random(seed), 80);
    const bytes = encodeColumns(source(), rows);
    for (const form of [bytes, await compress(bytes)]) {
      const batch = decodeBatch(form);
      assert.deepEqual(batch.source, source());
      assert.equal(batch.first, rows[0]?.seq);
      assert.equal(batch.last, rows.at(-1)?.seq);
      assert.deepEqual(batch.rows.map(plain), rows.map(expected), `seed ${seed}`);
    }
  }
});

test('random rows survive the rows format in msgpack, and in JSON but for the floats that it does not know', () => {
  for (let seed = 1; seed <= 60; seed++) {
    const rows = randomRows(new Random(seed), 40);
    const msgpack = decodeBatch(encodeRows(source(), rows, 'msgpack'));
    assert.deepEqual(msgpack.rows.map(plain), rows.map(expected), `seed ${seed}`);
    const finite = rows.filter((row) => !/"(NaN|-?Infinity)"/.test(Buffer.from(row.payload).toString('latin1')));
    const json = decodeBatch(encodeRows(source(), finite, 'json'));
    assert.deepEqual(json.rows.map(plain), finite.map(expected), `seed ${seed}`);
  }
});

test('a float that JSON does not know is null with quality bad in JSON rows', () => {
  const rows = [readingRow(1, reading('f', Number.NaN)), readingRow(2, reading('f', -Infinity, { quality: 24 }))];
  const decoded = decodeBatch(encodeRows(source(), rows, 'json')).rows;
  assert.deepEqual(
    decoded.map((row) => [row.type === 'f' && row.value, row.quality]),
    [
      [null, 0],
      [null, 24],
    ],
  );
});

test('a typed row whose payload does not read as its type travels as its bytes', () => {
  const payload = Buffer.from('{"ts":1,"value":tru');
  const rows = [
    readingRow(1, reading('f', 1)),
    { ...readingRow(2, reading('b', true)), payload },
    { ...readingRow(3, reading('f', 2)), asset: null },
  ];
  for (const bytes of [encodeColumns(source(), rows), encodeRows(source(), rows, 'msgpack')]) {
    const [first, second, third] = decodeBatch(bytes).rows;
    assert.equal(first?.type, 'f');
    assert.ok(second?.type === 'p' && payload.equals(second.payload));
    assert.equal(third?.type, 'p');
    assert.equal(second.ts, T0);
  }
});

test('lost ranges and the late flag travel, also without a row', () => {
  const lost = [{ from: 5 as Seq, to: 9 as Seq, reason: 'spool-full' }];
  const batch = decodeBatch(encodeColumns(source(), [readingRow(10, reading('f', 1))], { lost, hist: true }));
  assert.deepEqual(batch.lost, lost);
  assert.equal(batch.hist, true);
  const empty = decodeBatch(encodeColumns(source(), [], { lost }));
  assert.deepEqual([empty.first, empty.last, empty.rows, empty.lost], [5, 9, [], lost]);
});

test('the bytes of a batch are its own: the next encode does not change them', () => {
  const bytes = encodeColumns(source(), [opaqueRow(1, Buffer.from('one'))]);
  const copy = Buffer.from(bytes);
  for (let n = 0; n < 100; n++) encodeColumns(source('other'), [opaqueRow(n + 1, Buffer.alloc(500, n))]);
  assert.deepEqual(bytes, copy);
});

test('rows that do not rise by seq are a defect of the caller', () => {
  const rows = [opaqueRow(2, Buffer.of(1)), opaqueRow(2, Buffer.of(2))];
  assert.throws(() => encodeColumns(source(), rows), { code: 'internal.assertion' });
});

test('a thousand readings of one scan need few bytes each', async () => {
  const random = new Random(7);
  const rows = Array.from({ length: 1000 }, (_, n) =>
    readingRow(n + 1, reading('f', Math.round(random.next() * 1000) / 10, { metric: `m${n % 40}` })),
  );
  const bytes = await compress(encodeColumns(source(), rows));
  assert.ok(bytes.length / rows.length < 6, `${bytes.length / rows.length} bytes per reading`);
});
