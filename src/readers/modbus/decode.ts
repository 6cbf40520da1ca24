import { isUtf8 } from 'node:buffer';
import { assertNever } from '../../lib/assert.js';
import { type BitRange, type ByteOrder, type CharLayout, registersOf, type TagType } from '../../model/modbus.js';
import { wirePlaces } from './byte-order.js';
import { halfToNumber } from './half-float.js';

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
