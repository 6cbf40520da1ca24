import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SHORT_ORDERS, type TagType } from '../../src/model/modbus.js';
import { type ConversionOptions, conversionOf, readingTypeOf } from '../../src/readers/modbus/conversion.js';
import { decoderOf, type Raw, type ValueFormat } from '../../src/readers/modbus/decode.js';
import { encode } from '../../src/readers/modbus/encode.js';
import { planBlocks } from '../../src/readers/modbus/plan.js';
import { compileTag, samplesOf } from '../../src/readers/modbus/tag.js';

const PLAIN: ConversionOptions = { scale: 1, offset: 0, range: null, names: null, invalid: [] };
type More = Partial<ValueFormat & ConversionOptions>;

const formatOf = (type: TagType, length: number, more: More): ValueFormat => ({
  type,
  order: 'ABCD',
  bits: null,
  length,
  chars: 'both',
  ...more,
});

const convert = (type: TagType, hex: string, more: More = {}) => {
  const bytes = Buffer.from(hex.replaceAll(' ', ''), 'hex');
  const format = formatOf(type, bytes.length, more);
  // Somewhere inside an answer: a decoder that looks at the start of it reads 0xee.
  const raw = decoderOf(format)(Buffer.concat([Buffer.alloc(6, 0xee), bytes, Buffer.alloc(6, 0xee)]), 6);
  return conversionOf(format, { ...PLAIN, ...more })(raw);
};
const decode = (type: TagType, hex: string, more: More = {}): Raw => convert(type, hex, more).value;

/** The wire bytes of one value in each order, as a line analyser would show them. */
const GOLDEN: readonly (readonly [TagType, Raw, Record<(typeof SHORT_ORDERS)[number], string>])[] = [
  ['i16', -13, { ABCD: 'fff3', BADC: 'f3ff', CDAB: 'fff3', DCBA: 'f3ff' }],
  ['u16', 0x1234, { ABCD: '1234', BADC: '3412', CDAB: '1234', DCBA: '3412' }],
  ['i32', -123456, { ABCD: 'fffe 1dc0', BADC: 'feff c01d', CDAB: '1dc0 fffe', DCBA: 'c01d feff' }],
  ['u32', 0xfedcba98, { ABCD: 'fedc ba98', BADC: 'dcfe 98ba', CDAB: 'ba98 fedc', DCBA: '98ba dcfe' }],
  ['f32', 3.25, { ABCD: '4050 0000', BADC: '5040 0000', CDAB: '0000 4050', DCBA: '0000 5040' }],
  ['f32', Math.fround(77.514603), { ABCD: '429b 077a', BADC: '9b42 7a07', CDAB: '077a 429b', DCBA: '7a07 9b42' }],
  [
    'i64',
    -9007199254740993n,
    {
      ABCD: 'ffdf ffff ffff ffff',
      BADC: 'dfff ffff ffff ffff',
      CDAB: 'ffff ffff ffff ffdf',
      DCBA: 'ffff ffff ffff dfff',
    },
  ],
  [
    'u64',
    0x0123456789abcdefn,
    {
      ABCD: '0123 4567 89ab cdef',
      BADC: '2301 6745 ab89 efcd',
      CDAB: 'cdef 89ab 4567 0123',
      DCBA: 'efcd ab89 6745 2301',
    },
  ],
  [
    'u64',
    2n ** 64n - 2n,
    {
      ABCD: 'ffff ffff ffff fffe',
      BADC: 'ffff ffff ffff feff',
      CDAB: 'fffe ffff ffff ffff',
      DCBA: 'feff ffff ffff ffff',
    },
  ],
  [
    'f64',
    229.01,
    {
      ABCD: '406c a051 eb85 1eb8',
      BADC: '6c40 51a0 85eb b81e',
      CDAB: '1eb8 eb85 a051 406c',
      DCBA: 'b81e 85eb 51a0 6c40',
    },
  ],
  [
    'string',
    'HELLO',
    { ABCD: '4845 4c4c 4f00', BADC: '4548 4c4c 004f', CDAB: '4845 4c4c 4f00', DCBA: '4548 4c4c 004f' },
  ],
];

for (const [type, value, wire] of GOLDEN)
  test(`${type} ${value} in every byte order`, () => {
    for (const order of SHORT_ORDERS) {
      assert.equal(decode(type, wire[order], { order }), value, order);
      const bytes = encode(formatOf(type, 5, { order }), value as string);
      assert.equal(bytes.toString('hex'), wire[order].replaceAll(' ', ''), `written, ${order}`);
    }
  });

test('a bit of a register, in both byte orders', () => {
  for (let bit = 0; bit < 16; bit++) {
    assert.equal(decode('bool', '8001', { bits: { low: bit, high: bit } }), bit === 0 || bit === 15);
    assert.equal(decode('bool', '0180', { bits: { low: bit, high: bit }, order: 'BADC' }), bit === 0 || bit === 15);
  }
});

test('scaling keeps the sign and gives the decimals a person expects', () => {
  assert.equal(decode('i16', 'fff3', { scale: 0.1 }), -1.3);
  assert.equal(decode('i16', '0003', { scale: 0.1 }), 0.3);
  assert.equal(decode('u16', '00e5', { scale: 0.001 }), 0.229);
  assert.equal(decode('i16', 'ffec', { scale: 2.5, offset: 100 }), 50);
  assert.equal(decode('u16', '0007', { offset: -10 }), -3);
  assert.equal(decode('u64', '0000 0000 0000 000f', { scale: 0.5 }), 7.5);
  assert.equal(decode('f32', '4050 0000', { scale: -2 }), -6.5);
});

test('what is no number is null', () => {
  for (const hex of ['7fc0 0000', 'ff80 0000', '7f80 0000']) {
    assert.equal(decode('f32', hex), null);
    assert.equal(decode('f32', hex, { scale: 0.1, offset: 5 }), null);
  }
  assert.equal(decode('f64', '7ff8 0000 0000 0000'), null);
  assert.equal(decode('f64', '7fef ffff ffff ffff', { scale: 10 }), null, 'beyond what a float holds');
});

test('strings end at NUL, lose their padding, and keep bytes that are no UTF-8', () => {
  assert.equal(decode('string', '4142 0058 5858'), 'AB');
  assert.equal(decode('string', '4142 2020'), 'AB');
  assert.equal(decode('string', 'c3a4 c3b6'), 'äö');
  assert.equal(decode('string', 'e4f6'), 'äö');
  assert.equal(decode('string', '4142 4344', { length: 3 }), 'ABC');
  assert.equal(decode('string', '4241 4443', { length: 3, order: 'BADC' }), 'ABC');
  assert.equal(decode('string', '0000'), '');
});

test('the type on the wire follows from the type in the device and the scaling', () => {
  const typeOf = (type: TagType, scale = 1, offset = 0) => readingTypeOf(type, { ...PLAIN, scale, offset });
  assert.deepEqual(
    ['bool', 'i16', 'u64', 'f32', 'f64', 'string'].map((type) => typeOf(type as TagType)),
    ['b', 'i', 'i', 'f', 'f', 's'],
  );
  assert.equal(typeOf('i16', 0.1), 'f');
  assert.equal(typeOf('i16', 1, 1), 'f');
});

test('a sensor that sends NaN is a reading without a value, and its neighbours are good', () => {
  const device = { order: 'ABCD', addressing: 'pdu0' } as const;
  const tags = ['hr:0', 'hr:2'].map((at) => compileTag({ name: at, at, type: 'f32' }, device));
  const block = planBlocks(tags, { gapRegisters: 0 })[0];
  assert.ok(block);
  assert.deepEqual(samplesOf(block, Buffer.from('7fc0000040500000', 'hex')), [
    { tag: 'hr:0', type: 'f', value: null, quality: 16 },
    { tag: 'hr:2', type: 'f', value: 3.25, quality: 192 },
  ]);
});
