import { Buffer } from 'node:buffer';
import { assertNever } from '../lib/assert.js';
import { type BitRange, type ByteOrder, type CharLayout, registersOf, type TagType } from '../model/modbus.js';
import { mix } from './random.js';

/** What is needed of a tag to make values for it and write them as the device would. */
export interface TagShape {
  readonly name: string;
  readonly type: TagType;
  readonly order: ByteOrder;
  readonly bits: BitRange | null;
  readonly length: number;
  readonly chars: CharLayout;
  /** Raw values that mean something, where not all do. */
  readonly states: readonly number[];
  /** Both ends of the raw values, where they are known. */
  readonly ends: readonly [number, number] | null;
  /** Raw values that mean "none". */
  readonly invalid: ReadonlySet<bigint>;
}

/** Steps in which a value goes through its range once. */
const PERIOD_STEPS = 120;
/** Steps for which a bit or a named state lasts. */
const STATE_STEPS = 4;
/** What a number without a known range runs up to: it fits into every type of a byte or more. */
const SPAN = 100;

/** The registers of a tag in a step, and which of their bits are the tag's. */
export function registersAt(tag: TagShape, step: number): { readonly words: readonly number[]; readonly mask: number } {
  const count = registersOf(tag);
  const wire = inOrder(tag, bytesOf(tag, step, count * 2));
  const words = Array.from({ length: count }, (_, i) => wire.readUInt16BE(i * 2));
  if (!tag.bits || count > 1) return { words, mask: 0xffff };
  const ones = Buffer.alloc(2);
  ones.writeUInt16BE((2 ** (tag.bits.high - tag.bits.low + 1) - 1) * 2 ** tag.bits.low);
  return { words, mask: inOrder(tag, ones).readUInt16BE() };
}

/** A bit that changes every few steps. */
export function bitAt(tag: Pick<TagShape, 'name'>, step: number): boolean {
  return (Math.floor(step / STATE_STEPS) + seedOf(tag.name)) % 2 === 1;
}

function bytesOf(tag: TagShape, step: number, size: number): Buffer {
  const bytes = Buffer.alloc(size);
  const number = numberAt(tag, step);
  switch (tag.type) {
    case 'bool':
      bytes.writeUInt16BE(bitAt(tag, step) ? 2 ** (tag.bits?.low ?? 0) : 0);
      return bytes;
    case 'string': {
      const text = Buffer.from(`${tag.name} ${number}`.slice(-tag.length), 'latin1');
      const [first, stride] = [tag.chars === 'low' ? 1 : 0, tag.chars === 'both' ? 1 : 2];
      for (const [i, byte] of text.entries()) bytes[first + i * stride] = byte;
      return bytes;
    }
    case 'f16':
      bytes.writeUInt16BE(halfOf(number));
      return bytes;
    case 'f32':
      bytes.writeFloatBE(number + 0.5);
      return bytes;
    case 'f64':
      bytes.writeDoubleBE(number + 0.5);
      return bytes;
    case 'bcd16':
    case 'bcd32':
      bytes.write(String(number).padStart(size * 2, '0'), 'hex');
      return bytes;
    case 'i8':
    case 'u8':
    case 'i16':
    case 'u16':
    case 'i32':
    case 'u32':
    case 'i64':
    case 'u64': {
      const { low, high } = tag.bits ?? { low: 0, high: size * 8 - 1 };
      const placed = BigInt.asUintN(high - low + 1, BigInt(number)) << BigInt(low);
      bytes.write(placed.toString(16).padStart(size * 2, '0'), 'hex');
      return bytes;
    }
    default:
      return assertNever(tag.type, 'tag type');
  }
}

/** A whole number that goes up and down through what the tag may be, and is none of its invalid values. */
function numberAt({ name, bits, states, ends, invalid }: TagShape, step: number): number {
  const phase = (step + (seedOf(name) % PERIOD_STEPS)) % PERIOD_STEPS;
  const share = 1 - Math.abs((2 * phase) / PERIOD_STEPS - 1);
  if (states.length > 0) return states[Math.floor(step / STATE_STEPS) % states.length] as number;
  const width = bits ? bits.high - bits.low + 1 : 8;
  const [low, high] = ends ? [Math.min(...ends), Math.max(...ends)] : [0, Math.min(SPAN, 2 ** (width - 1) - 1)];
  const value = Math.round(low + share * (high - low));
  if (!invalid.has(BigInt(value))) return value;
  for (let other = Math.ceil(low); other <= high; other++) if (!invalid.has(BigInt(other))) return other;
  return value;
}

/** From the most significant byte first to the order on the wire. */
function inOrder({ order, type }: TagShape, bytes: Buffer): Buffer {
  if (order.length === 8)
    return Buffer.from(Array.from(order, (letter) => bytes[letter.charCodeAt(0) - 0x41] as number));
  const wire = Buffer.from(bytes);
  if (order === 'BADC' || order === 'DCBA') wire.swap16();
  if ((order === 'CDAB' || order === 'DCBA') && type !== 'string') {
    const words = Array.from({ length: wire.length / 2 }, (_, i) => Buffer.from(wire.subarray(i * 2, i * 2 + 2)));
    return Buffer.concat(words.reverse());
  }
  return wire;
}

/** The half float of a whole number below 2048, which has an exact one [IEEE 754-2008, binary16]. */
function halfOf(value: number): number {
  const magnitude = Math.min(2047, Math.abs(value));
  if (magnitude === 0) return 0;
  const exponent = Math.floor(Math.log2(magnitude));
  return (value < 0 ? 0x8000 : 0) | ((exponent + 15) << 10) | Math.round((magnitude / 2 ** exponent - 1) * 1024);
}

const seedOf = (name: string): number => mix(...Buffer.from(name));
