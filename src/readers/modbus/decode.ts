import { isUtf8 } from 'node:buffer';
import { assertNever } from '../../lib/assert.js';
import type { ReadingType } from '../../model/reading.js';

export const TAG_TYPES = ['bool', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64', 'f32', 'f64', 'string'] as const;
export type TagType = (typeof TAG_TYPES)[number];

/**
 * How the bytes of a value lie on the wire, A the most significant. `BADC` swaps the bytes of each register, `CDAB` the
 * registers of the value, `DCBA` both; so the 64-bit forms are ABCDEFGH, BADCFEHG, GHEFCDAB and HGFEDCBA, a 16-bit value
 * is AB or BA, and a string has only its bytes swapped, never its registers.
 */
export const BYTE_ORDERS = ['ABCD', 'BADC', 'CDAB', 'DCBA'] as const;
export type ByteOrder = (typeof BYTE_ORDERS)[number];

export interface ValueFormat {
  readonly type: TagType;
  readonly order: ByteOrder;
  /** For `bool` in a register: which bit, 0 the lowest. */
  readonly bit: number | null;
  /** For `string`: its bytes. */
  readonly length: number;
  /** value = raw · scale + offset. */
  readonly scale: number;
  readonly offset: number;
}

/**
 * Null when the device sends no number (NaN, an infinity): the broken sensor behind it must not become a number, and JSON
 * has none for it, so it would turn into a silent null on the way.
 */
export type Decoded = number | bigint | boolean | string | null;

/** Reads the value at a byte offset of an answer's register bytes. */
export type Decode = (registers: Buffer, byteOffset: number) => Decoded;

export function registersOf({ type, length }: Pick<ValueFormat, 'type' | 'length'>): number {
  switch (type) {
    case 'bool':
    case 'i16':
    case 'u16':
      return 1;
    case 'i32':
    case 'u32':
    case 'f32':
      return 2;
    case 'i64':
    case 'u64':
    case 'f64':
      return 4;
    case 'string':
      return Math.ceil(length / 2);
    default:
      return assertNever(type, 'tag type');
  }
}

/** The type under which a value travels; a scaled value is a float whatever it is in the device. */
export function readingTypeOf({ type, scale, offset }: ValueFormat): ReadingType {
  if (type === 'bool') return 'b';
  if (type === 'string') return 's';
  return type === 'f32' || type === 'f64' || scale !== 1 || offset !== 0 ? 'f' : 'i';
}

/** 64-bit integers are exact as `bigint`; scaled, they are as exact as a float is. */
export function decoderOf(format: ValueFormat): Decode {
  return inOrder(format, scaled(format, highByteFirst(format)));
}

function highByteFirst({ type, bit, length }: ValueFormat): Decode {
  switch (type) {
    case 'bool':
      return (b, o) => ((b.readUInt16BE(o) >>> (bit ?? 0)) & 1) === 1;
    case 'i16':
      return (b, o) => b.readInt16BE(o);
    case 'u16':
      return (b, o) => b.readUInt16BE(o);
    case 'i32':
      return (b, o) => b.readInt32BE(o);
    case 'u32':
      return (b, o) => b.readUInt32BE(o);
    case 'i64':
      return (b, o) => b.readBigInt64BE(o);
    case 'u64':
      return (b, o) => b.readBigUInt64BE(o);
    case 'f32':
      return (b, o) => finite(b.readFloatBE(o));
    case 'f64':
      return (b, o) => finite(b.readDoubleBE(o));
    case 'string':
      return (b, o) => text(b.subarray(o, o + length));
    default:
      return assertNever(type, 'tag type');
  }
}

function scaled({ type, scale, offset }: ValueFormat, decode: Decode): Decode {
  if (type === 'bool' || type === 'string' || (scale === 1 && offset === 0)) return decode;
  // 3 · 0.1 is 0.30000000000000004 and 3 / 10 is 0.3: dividing by a whole number rounds once, as a person would.
  const divisor = Math.round(1 / scale);
  const divides = divisor > 1 && 1 / divisor === scale;
  return (b, o) => {
    const raw = decode(b, o);
    if (raw === null) return null;
    return finite((divides ? Number(raw) / divisor : Number(raw) * scale) + offset);
  };
}

/** Lets `decode` see the value high byte first: in the answer itself when it lies so there, otherwise in a copy. */
function inOrder(format: ValueFormat, decode: Decode): Decode {
  const swapBytes = format.order === 'BADC' || format.order === 'DCBA';
  const swapRegisters = (format.order === 'CDAB' || format.order === 'DCBA') && format.type !== 'string';
  const bytes = registersOf(format) * 2;
  if (!swapBytes && (!swapRegisters || bytes === 2)) return decode;

  const source = Array.from({ length: bytes }, (_, i) => {
    const register = swapRegisters ? bytes / 2 - 1 - (i >>> 1) : i >>> 1;
    return register * 2 + (swapBytes ? 1 - (i & 1) : i & 1);
  });
  const copy = Buffer.alloc(bytes);
  return (registers, byteOffset) => {
    for (let i = 0; i < bytes; i++) copy[i] = registers[byteOffset + (source[i] as number)] as number;
    return decode(copy, 0);
  };
}

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null);

/** A PLC fills up with NUL or blanks. Old ones speak no UTF-8; Latin-1 at least keeps their bytes apart. */
function text(bytes: Buffer): string {
  const nul = bytes.indexOf(0);
  const used = nul < 0 ? bytes : bytes.subarray(0, nul);
  return used.toString(isUtf8(used) ? 'utf8' : 'latin1').trimEnd();
}
