import { isUtf8 } from 'node:buffer';
import { assertNever } from '../../lib/assert.js';
import { type ByteOrder, wirePlaces } from './byte-order.js';
import { halfToNumber } from './half-float.js';

export const TAG_TYPES = [
  'bool',
  'i8',
  'u8',
  'i16',
  'u16',
  'i32',
  'u32',
  'i64',
  'u64',
  'bcd16',
  'bcd32',
  'f16',
  'f32',
  'f64',
  'string',
] as const;
export type TagType = (typeof TAG_TYPES)[number];

/** The bits of a value that count, from `low` to `high`, 0 the lowest. */
export interface BitRange {
  readonly low: number;
  readonly high: number;
}

/** Which byte of each register holds a character: both, one after the other, or only one of them. */
export type CharLayout = 'both' | 'high' | 'low';

/** How a value is written in its registers. */
export interface ValueFormat {
  readonly type: TagType;
  readonly order: ByteOrder;
  /** For a `bool` or an 8-bit value in a register, and for a field of bits within an integer; null for a whole value. */
  readonly bits: BitRange | null;
  /** For `string`: its bytes. */
  readonly length: number;
  readonly chars: CharLayout;
}

/** What is in the registers. Null: it is no value of the type, such as a NaN or a digit beyond 9. */
export type Raw = number | bigint | boolean | string | null;

/** Reads the value at a byte offset of an answer's register bytes. */
export type Decode = (registers: Buffer, byteOffset: number) => Raw;

export function registersOf({ type, length, chars }: Pick<ValueFormat, 'type' | 'length' | 'chars'>): number {
  switch (type) {
    case 'bool':
    case 'i8':
    case 'u8':
    case 'i16':
    case 'u16':
    case 'bcd16':
    case 'f16':
      return 1;
    case 'i32':
    case 'u32':
    case 'bcd32':
    case 'f32':
      return 2;
    case 'i64':
    case 'u64':
    case 'f64':
      return 4;
    case 'string':
      return chars === 'both' ? Math.ceil(length / 2) : length;
    default:
      return assertNever(type, 'tag type');
  }
}

/** 64-bit integers are exact, as `bigint`. */
export function decoderOf(format: ValueFormat): Decode {
  return inOrder(format, highByteFirst(format));
}

function highByteFirst({ type, bits, length, chars }: ValueFormat): Decode {
  switch (type) {
    case 'bool':
      return (b, o) => ((b.readUInt16BE(o) >>> (bits?.low ?? 0)) & 1) === 1;
    case 'i8':
    case 'u8':
      return field(bits, type === 'i8', (b, o) => b.readUInt16BE(o));
    case 'i16':
      return bits ? field(bits, true, (b, o) => b.readUInt16BE(o)) : (b, o) => b.readInt16BE(o);
    case 'u16':
      return field(bits, false, (b, o) => b.readUInt16BE(o));
    case 'i32':
      return bits ? field(bits, true, (b, o) => b.readUInt32BE(o)) : (b, o) => b.readInt32BE(o);
    case 'u32':
      return field(bits, false, (b, o) => b.readUInt32BE(o));
    case 'i64':
      return (b, o) => b.readBigInt64BE(o);
    case 'u64':
      return (b, o) => b.readBigUInt64BE(o);
    case 'bcd16':
      return (b, o) => digits(b.readUInt16BE(o), 4);
    case 'bcd32':
      return (b, o) => digits(b.readUInt32BE(o), 8);
    case 'f16':
      return (b, o) => finite(halfToNumber(b.readUInt16BE(o)));
    case 'f32':
      return (b, o) => finite(b.readFloatBE(o));
    case 'f64':
      return (b, o) => finite(b.readDoubleBE(o));
    case 'string':
      if (chars === 'both') return (b, o) => text(b.subarray(o, o + length));
      return (b, o) => text(everyOther(b.subarray(o + (chars === 'low' ? 1 : 0), o + length * 2)));
    default:
      return assertNever(type, 'tag type');
  }
}

/** Without bits the value itself. A signed field has its sign in its own highest bit. */
function field(bits: BitRange | null, signed: boolean, whole: (b: Buffer, o: number) => number): Decode {
  if (!bits) return whole;
  const { low } = bits;
  const size = 2 ** (bits.high - low + 1);
  if (!signed) return (b, o) => (whole(b, o) >>> low) % size;
  return (b, o) => {
    const value = (whole(b, o) >>> low) % size;
    return value >= size / 2 ? value - size : value;
  };
}

function digits(bcd: number, count: number): number | null {
  let value = 0;
  for (let i = count - 1; i >= 0; i--) {
    const digit = (bcd >>> (i * 4)) & 0xf;
    if (digit > 9) return null;
    value = value * 10 + digit;
  }
  return value;
}

/** Lets `decode` see the value high byte first: in the answer itself when it lies so there, otherwise in a copy. */
function inOrder(format: ValueFormat, decode: Decode): Decode {
  const bytes = registersOf(format) * 2;
  const places = wirePlaces(format.order, bytes, format.type === 'string');
  if (!places) return decode;
  const copy = Buffer.alloc(bytes);
  return (registers, byteOffset) => {
    for (let i = 0; i < bytes; i++) copy[i] = registers[byteOffset + (places[i] as number)] as number;
    return decode(copy, 0);
  };
}

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null);

const everyOther = (bytes: Buffer): Buffer => Buffer.from(bytes.filter((_, i) => i % 2 === 0));

/** A PLC fills up with NUL or blanks. Old ones speak no UTF-8; Latin-1 at least keeps their bytes apart. */
function text(bytes: Buffer): string {
  const nul = bytes.indexOf(0);
  const used = nul < 0 ? bytes : bytes.subarray(0, nul);
  return used.toString(isUtf8(used) ? 'utf8' : 'latin1').trimEnd();
}
