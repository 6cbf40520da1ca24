import { assertNever } from '../../lib/assert.js';
import { registersOf } from '../../model/modbus.js';
import { wirePlaces } from './byte-order.js';
import type { Raw, ValueFormat } from './decode.js';
import { HALF_MAX, numberToHalf } from './half-float.js';

/**
 * The register bytes that `decoderOf` reads as `raw`; for a bit or a field all other bits are 0. Throws an error that says
 * why, when the type has no such value: nothing is ever cut off, wrapped or rounded to fit.
 */
export function encode(format: ValueFormat, raw: Exclude<Raw, null>): Buffer {
  const bytes = Buffer.alloc(registersOf(format) * 2);
  fill(bytes, format, raw);
  const places = wirePlaces(format.order, bytes.length, format.type === 'string');
  if (!places) return bytes;
  const wire = Buffer.alloc(bytes.length);
  for (const [i, place] of places.entries()) wire[place] = bytes[i] as number;
  return wire;
}

function fill(bytes: Buffer, { type, bits, length, chars }: ValueFormat, raw: Exclude<Raw, null>): void {
  switch (type) {
    case 'bool':
      demand(typeof raw === 'boolean', 'must be true or false');
      bytes.writeUInt16BE(raw ? 2 ** (bits?.low ?? 0) : 0);
      return;
    case 'string':
      fillText(bytes, raw, length, chars);
      return;
    case 'i64':
      bytes.writeBigInt64BE(whole(raw, -(2n ** 63n), 2n ** 63n - 1n));
      return;
    case 'u64':
      bytes.writeBigUInt64BE(whole(raw, 0n, 2n ** 64n - 1n));
      return;
    case 'f16':
      bytes.writeUInt16BE(numberToHalf(float(raw, HALF_MAX)));
      return;
    case 'f32':
      bytes.writeFloatBE(float(raw, FLOAT_MAX));
      return;
    case 'f64':
      bytes.writeDoubleBE(float(raw, Number.MAX_VALUE));
      return;
    case 'bcd16':
      bytes.writeUInt16BE(bcd(Number(whole(raw, 0n, 9999n))));
      return;
    case 'bcd32':
      bytes.writeUInt32BE(bcd(Number(whole(raw, 0n, 99_999_999n))));
      return;
    case 'i8':
    case 'u8':
    case 'i16':
    case 'u16':
    case 'i32':
    case 'u32':
      fillInteger(bytes, type.startsWith('i'), bits ?? { low: 0, high: bytes.length * 8 - 1 }, raw);
      return;
    default:
      assertNever(type, 'tag type');
  }
}

function fillInteger(bytes: Buffer, signed: boolean, { low, high }: { low: number; high: number }, raw: Raw): void {
  const size = 2n ** BigInt(high - low + 1);
  const value = signed ? whole(raw, -size / 2n, size / 2n - 1n) : whole(raw, 0n, size - 1n);
  const placed = ((value + size) % size) << BigInt(low);
  if (bytes.length === 2) bytes.writeUInt16BE(Number(placed));
  else bytes.writeUInt32BE(Number(placed));
}

function fillText(bytes: Buffer, raw: Raw, length: number, chars: ValueFormat['chars']): void {
  demand(typeof raw === 'string', 'must be a text');
  const text = Buffer.from(raw);
  demand(text.length <= length, `must not be longer than ${length} bytes, is ${text.length}`);
  demand(!text.includes(0), 'must not contain a NUL character');
  if (chars === 'both') text.copy(bytes);
  else for (const [i, byte] of text.entries()) bytes[i * 2 + (chars === 'low' ? 1 : 0)] = byte;
}

function whole(raw: Raw, min: bigint, max: bigint): bigint {
  demand(typeof raw === 'bigint' || Number.isSafeInteger(raw), 'must be a whole number');
  const value = BigInt(raw as number | bigint);
  demand(value >= min && value <= max, `must be from ${min} to ${max}`);
  return value;
}

function float(raw: Raw, max: number): number {
  const value = typeof raw === 'bigint' ? Number(raw) : raw;
  demand(typeof value === 'number' && Number.isFinite(value), 'must be a number');
  demand(Math.abs(value) <= max, `must be from -${max} to ${max}`);
  return value;
}

function bcd(value: number): number {
  return Number.parseInt(String(value), 16);
}

function demand(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new Error(problem);
}

/** [IEEE 754-2008, binary32] */
const FLOAT_MAX = (2 - 2 ** -23) * 2 ** 127;
