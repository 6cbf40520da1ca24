import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LONG_ORDERS, registersOf, SHORT_ORDERS, type TagType } from '../../src/model/modbus.js';
import { GOOD } from '../../src/model/reading.js';
import { toRaw } from '../../src/readers/modbus/conversion.js';
import { decoderOf, type Raw, type ValueFormat } from '../../src/readers/modbus/decode.js';
import { encode } from '../../src/readers/modbus/encode.js';
import type { ModbusTagOptions } from '../../src/readers/modbus/options.js';
import { compileTag } from '../../src/readers/modbus/tag.js';
import { Random } from '../helpers/random.js';

const DEVICE = { order: 'ABCD', addressing: 'pdu0' } as const;

/** What the tag makes of these register bytes, as value and quality. */
function read(options: Partial<ModbusTagOptions>, hex: string): [unknown, number] {
  const tag = compileTag({ name: 't', at: 'hr:0', type: 'u16', ...options }, DEVICE);
  const { value, quality } = tag.sample(Buffer.from(hex.replaceAll(' ', ''), 'hex'), { ...tag, address: 0 });
  return [value, quality];
}

test('binary coded decimals are digits, and anything else is no value', () => {
  assert.deepEqual(read({ type: 'bcd16' }, '1234'), [1234, GOOD]);
  assert.deepEqual(read({ type: 'bcd32' }, '1234 5678'), [12_345_678, GOOD]);
  assert.deepEqual(read({ type: 'bcd32', order: 'CDAB' }, '5678 9234'), [92_345_678, GOOD]);
  assert.deepEqual(read({ type: 'bcd16', scale: 0.1 }, '0123'), [12.3, GOOD]);
  assert.deepEqual(read({ type: 'bcd16' }, '12a4'), [null, 16]);
});

test('half floats: the standard examples, and no infinity', () => {
  for (const [hex, value] of [
    ['3c00', 1],
    ['c000', -2],
    ['7bff', 65504],
    ['0400', 2 ** -14],
    ['0001', 2 ** -24],
    ['3555', 0.333251953125],
    ['8000', -0],
  ] as const)
    assert.deepEqual(read({ type: 'f16' }, hex), [value, GOOD], hex);
  for (const hex of ['7c00', 'fc00', '7e00']) assert.deepEqual(read({ type: 'f16' }, hex), [null, 16], hex);
});

test('bytes and fields of bits, with their own sign', () => {
  assert.deepEqual(read({ type: 'u8', at: 'hr:0.hi' }, 'fe03'), [0xfe, GOOD]);
  assert.deepEqual(read({ type: 'i8', at: 'hr:0.hi' }, 'fe03'), [-2, GOOD]);
  assert.deepEqual(read({ type: 'i8', at: 'hr:0.lo' }, 'fe03'), [3, GOOD]);
  assert.deepEqual(read({ type: 'u16', at: 'hr:0.4-7' }, '12a4'), [0xa, GOOD]);
  assert.deepEqual(read({ type: 'i16', at: 'hr:0.4-7' }, '12a4'), [-6, GOOD]);
  assert.deepEqual(read({ type: 'u32', at: 'hr:0.31' }, '8000 0000'), [1, GOOD]);
  assert.deepEqual(read({ type: 'u32', at: 'hr:0.8-31' }, '1234 5678'), [0x123456, GOOD]);
  assert.deepEqual(read({ type: 'u32', at: 'hr:0.0-31' }, 'ffff ffff'), [0xffffffff, GOOD]);
  assert.deepEqual(read({ type: 'i32', at: 'hr:0.0-31' }, 'ffff ffff'), [-1, GOOD]);
});

test('named values; a number without a name is told as it is, and uncertain', () => {
  const mode = { names: { 0: 'off', 1: 'auto', '-1': 'fault' }, type: 'i16' } as const;
  assert.deepEqual(read(mode, '0001'), ['auto', GOOD]);
  assert.deepEqual(read(mode, 'ffff'), ['fault', GOOD]);
  assert.deepEqual(read(mode, '0007'), ['7', 64]);
  assert.deepEqual(read({ at: 'hr:0.3', type: 'bool', names: { 0: 'closed', 1: 'open' } }, '0008'), ['open', GOOD]);
  const coil = compileTag({ name: 'c', at: 'co:9', type: 'bool', names: { 0: 'closed', 1: 'open' } }, DEVICE);
  assert.equal(coil.sample(Buffer.of(0b10), { table: 'co', address: 8, quantity: 2 }).value, 'open');
});

test('all eight orders of a 64-bit value, as a line analyser shows them', () => {
  for (const order of LONG_ORDERS) {
    const hex = [...order].map((letter) => `1${letter.charCodeAt(0) - 0x41}`).join('');
    assert.deepEqual(read({ type: 'u64', order }, hex), [0x1011121314151617n, GOOD], order);
  }
});

test('texts with one character in each register, on either side', () => {
  assert.deepEqual(read({ type: 'string', length: 3, chars: 'low' }, '0041 0042 0000'), ['AB', GOOD]);
  assert.deepEqual(read({ type: 'string', length: 3, chars: 'high' }, '4100 4200 4300'), ['ABC', GOOD]);
  assert.equal(registersOf({ type: 'string', length: 3, chars: 'low' }), 3);
});

test('what a device sends for "none" is no value, however its manual writes it', () => {
  assert.deepEqual(read({ type: 'i16', invalid: [0x8000], scale: 0.1 }, '8000'), [null, 16]);
  assert.deepEqual(read({ type: 'i16', invalid: [-32768] }, '8000'), [null, 16]);
  assert.deepEqual(read({ type: 'u32', invalid: [0xffffffff] }, 'ffff ffff'), [null, 16]);
  assert.deepEqual(read({ type: 'i64', invalid: [2n ** 63n] }, '8000 0000 0000 0000'), [null, 16]);
  assert.deepEqual(read({ type: 'u64', invalid: 'sunspec' }, 'ffff ffff ffff ffff'), [null, 16]);
  assert.deepEqual(read({ type: 'u64', invalid: 'sunspec' }, 'ffff ffff ffff fffe'), [2n ** 64n - 2n, GOOD]);
  assert.deepEqual(read({ type: 'f32', invalid: [-9999] }, 'c61c 3c00'), [null, 16]);
  assert.deepEqual(read({ type: 'u16', invalid: [0xffff] }, '8000'), [0x8000, GOOD]);
});

test('a range maps its ends exactly, says when a value is beyond them, and clamps on request', () => {
  const range = { raw: [0, 27648], eng: [-50, 150], clamp: false } as const;
  const hex = (value: number) => (value & 0xffff).toString(16).padStart(4, '0');
  assert.deepEqual(read({ type: 'i16', range }, hex(0)), [-50, GOOD]);
  assert.deepEqual(read({ type: 'i16', range }, hex(27648)), [150, GOOD]);
  assert.deepEqual(read({ type: 'i16', range }, hex(13824)), [50, GOOD]);
  assert.deepEqual(read({ type: 'i16', range }, hex(-13824)), [-150, 84]);
  assert.deepEqual(read({ type: 'i16', range: { ...range, clamp: true } }, hex(-1)), [-50, 84]);
  assert.deepEqual(read({ type: 'i16', range: { ...range, clamp: true } }, hex(30000)), [150, 84]);
  assert.deepEqual(read({ type: 'i16', range: { raw: [100, 0], eng: [0, 1], clamp: true } }, hex(75)), [0.25, GOOD]);
});

test('what is written is read again, for random values of every type in every order', () => {
  const random = new Random(3);
  const bits = (count: number) => BigInt.asUintN(count, random.bytes(8).readBigUInt64BE());
  const values: Partial<Record<TagType, () => Exclude<Raw, null>>> = {
    i16: () => Number(BigInt.asIntN(16, bits(16))),
    u16: () => Number(bits(16)),
    i32: () => Number(BigInt.asIntN(32, bits(32))),
    u32: () => Number(bits(32)),
    i64: () => BigInt.asIntN(64, bits(64)),
    u64: () => bits(64),
    bcd16: () => random.int(0, 9999),
    bcd32: () => random.int(0, 99_999_999),
    f32: () => Math.fround(random.next() * 1e6 - 5e5),
    f64: () => random.double(),
    string: () => 'ABCDEFGHIJ'.slice(0, random.int(0, 10)),
  };
  for (const [type, next] of Object.entries(values) as [TagType, () => Exclude<Raw, null>][])
    for (const order of type.endsWith('64') ? [...SHORT_ORDERS, ...LONG_ORDERS] : SHORT_ORDERS)
      for (let i = 0; i < 50; i++) {
        const chars = random.pick(['both', 'high', 'low'] as const);
        const format: ValueFormat = { type, order, bits: null, length: 10, chars: type === 'string' ? chars : 'both' };
        const value = next();
        assert.deepEqual(decoderOf(format)(encode(format, value), 0), value, `${type} ${order}`);
      }
  for (let half = 0; half < 0x10000; half++) {
    const format: ValueFormat = { type: 'f16', order: 'ABCD', bits: null, length: 0, chars: 'both' };
    const wire = Buffer.alloc(2);
    wire.writeUInt16BE(half);
    const value = decoderOf(format)(wire, 0);
    if (value !== null) assert.equal(encode(format, value).readUInt16BE(), half, String(value));
  }
});

test('what a type cannot hold is refused, never cut off', () => {
  const refused = (type: TagType, value: unknown, reason: RegExp, more: Partial<ValueFormat> = {}) =>
    assert.throws(
      () => encode({ type, order: 'ABCD', bits: null, length: 4, chars: 'both', ...more }, value as number),
      reason,
      `${type} ${value}`,
    );
  refused('u16', -1, /from 0 to 65535/);
  refused('i16', 32768, /from -32768 to 32767/);
  refused('u16', 1.5, /whole number/);
  refused('u16', '7', /whole number/);
  refused('u64', 2n ** 64n, /from 0 to/);
  refused('i64', 2 ** 60, /whole number/);
  refused('f32', 1e39, /from -3/);
  refused('f32', Number.NaN, /a number/);
  refused('f16', 65_520, /65504/);
  refused('bcd16', 10_000, /9999/);
  refused('bool', 1, /true or false/);
  refused('string', 'ABCDE', /longer than 4/);
  refused('u16', 16, /from 0 to 15/, { bits: { low: 4, high: 7 } });
});

test('a meaning is turned back into what the device holds', () => {
  const raw = (options: Partial<ModbusTagOptions>, value: unknown) => {
    const tag = compileTag({ name: 't', at: 'hr:0', type: 'i16', ...options }, DEVICE);
    return toRaw({ type: options.type ?? 'i16' }, tag.conversion, value);
  };
  assert.equal(raw({ scale: 0.1 }, -1.3), -13);
  assert.equal(raw({ scale: 2.5, offset: 100 }, 50), -20);
  assert.equal(raw({ range: { raw: [0, 27648], eng: [0, 100], clamp: false } }, 50), 13824);
  assert.equal(raw({ names: { 0: 'off', 2: 'hand' } }, 'hand'), 2);
  assert.equal(raw({ type: 'u64' }, 2n ** 60n), 2n ** 60n);
  assert.throws(() => raw({ range: { raw: [0, 27648], eng: [0, 100], clamp: false } }, 101), /from 0 to 100/);
  assert.throws(() => raw({ names: { 0: 'off', 2: 'hand' } }, 'auto'), /one of off, hand/);
  assert.throws(() => raw({ scale: 0.1 }, '5'), /a number/);
});
