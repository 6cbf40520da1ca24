/** What Modbus has and what a value in it can be: the words that configs, readers and simulators share. */

/** Coils and discrete inputs hold bits, holding and input registers 16-bit words. */
export type Table = 'co' | 'di' | 'hr' | 'ir';

export const isBitTable = (table: Table): boolean => table === 'co' || table === 'di';

/** In each table, from 0 [Modbus Application Protocol 1.1b3, 4.4]. */
export const ADDRESSES = 65_536;
/** [Modbus Application Protocol 1.1b3, 6.1 to 6.4] */
export const BITS_PER_READ_MAX = 2000;
export const REGISTERS_PER_READ_MAX = 125;

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

/**
 * How the bytes of a value lie on the wire, A the most significant, in the order in which they are sent. `BADC` swaps the
 * bytes of each register, `CDAB` the registers of the value, `DCBA` both; so the 64-bit forms of the four are ABCDEFGH,
 * BADCFEHG, GHEFCDAB and HGFEDCBA, a 16-bit value is AB or BA, and a string has only its bytes swapped, never its registers.
 */
export const SHORT_ORDERS = ['ABCD', 'BADC', 'CDAB', 'DCBA'] as const;

/** Written out for 64-bit values, with those in which each half keeps its place or changes it as a whole. */
export const LONG_ORDERS = [
  'ABCDEFGH',
  'BADCFEHG',
  'CDABGHEF',
  'DCBAHGFE',
  'EFGHABCD',
  'FEHGBADC',
  'GHEFCDAB',
  'HGFEDCBA',
] as const;

export const BYTE_ORDERS = [...SHORT_ORDERS, ...LONG_ORDERS] as const;
export type ByteOrder = (typeof BYTE_ORDERS)[number];

/** Which byte of each register holds a character of a string: both, one after the other, or only one of them. */
export const CHAR_LAYOUTS = ['both', 'high', 'low'] as const;
export type CharLayout = (typeof CHAR_LAYOUTS)[number];

/** How plain numbers are meant: `pdu0` allows none, `plc1` takes 40001 and 400001 for the first holding register. */
export const ADDRESSINGS = ['pdu0', 'plc1'] as const;
export type Addressing = (typeof ADDRESSINGS)[number];

/** The bits of a value that count, from `low` to `high`, 0 the lowest. */
export interface BitRange {
  readonly low: number;
  readonly high: number;
}

const WIDE: Partial<Record<TagType, number>> = { i32: 2, u32: 2, bcd32: 2, f32: 2, i64: 4, u64: 4, f64: 4 };

/** Registers that a value takes; `length` are the bytes of a string. */
export function registersOf(value: {
  readonly type: TagType;
  readonly length: number;
  readonly chars: CharLayout;
}): number {
  if (value.type === 'string') return value.chars === 'both' ? Math.ceil(value.length / 2) : value.length;
  return WIDE[value.type] ?? 1;
}

/** What is wrong with taking these bits of a value of this type in the registers at `whole`, or undefined. */
export function bitsFault(type: TagType, bits: BitRange | null, whole: string): string | undefined {
  if (type === 'bool') {
    if (!bits) return `a bool in a register needs its bit, like "${whole}.0"`;
    if (bits.low !== bits.high) return `a bool is one bit, found ${bits.low}-${bits.high}`;
    return widthFault('register', 16, bits);
  }
  if (type === 'i8' || type === 'u8') {
    const isByte = bits && bits.low % 8 === 0 && bits.high === bits.low + 7 && bits.high <= 15;
    return isByte ? undefined : `an 8-bit value needs its byte, like "${whole}.lo"`;
  }
  if (!bits) return undefined;
  if (type === 'i16' || type === 'u16') return widthFault('register', 16, bits);
  if (type === 'i32' || type === 'u32') return widthFault(type, 32, bits);
  return `a ${type} is a whole value, not some bits of one`;
}

function widthFault(what: string, width: number, { high }: BitRange): string | undefined {
  return high < width ? undefined : `a ${what} has the bits 0 to ${width - 1}, found ${high}`;
}
