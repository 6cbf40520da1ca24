/** Addresses 0 to 65535 in each of the four tables (Modbus application protocol 4.4). */
export const ADDRESSES = 65_536;

export type Table = 'co' | 'di' | 'ir' | 'hr';

export interface At {
  readonly table: Table;
  /** 0-based, as in the PDU. */
  readonly address: number;
  /** What is meant of the value, as it was written: `3`, `4-7`, `hi` or `lo`. */
  readonly part: string | undefined;
  /** Written in the 1-based notation of PLC manuals, 40108 or 400108. */
  readonly plc: boolean;
}

const PART = String.raw`(?:\.(hi|lo|\d{1,2}(?:-\d{1,2})?))?`;
const PDU = new RegExp(`^(co|di|ir|hr):(\\d{1,5})${PART}$`);
const IEC = new RegExp(`^%(MW|IW|M|I)(\\d{1,5})${PART}$`);
const PLC = new RegExp(`^([0134])(\\d{4,5})${PART}$`);
const TABLES: Readonly<Record<string, Table>> = {
  0: 'co',
  1: 'di',
  3: 'ir',
  4: 'hr',
  M: 'co',
  I: 'di',
  IW: 'ir',
  MW: 'hr',
};

/** What `at` points to, or what is wrong with it. */
export function parseAt(at: string): At | string {
  const plc = PLC.exec(at);
  const [, place, digits, part] = plc ?? PDU.exec(at) ?? IEC.exec(at) ?? [];
  if (place === undefined) return `expected co:, di:, hr: or ir: and a number from 0 to ${ADDRESSES - 1}, found ${at}`;
  const table = TABLES[place] ?? (place as Table);
  const address = Number(digits) - (plc ? 1 : 0);
  if (address < 0 || address >= ADDRESSES) return `no such address: ${at}`;
  if (part !== undefined && (table === 'co' || table === 'di')) return 'only a register has bits';
  return { table, address, part, plc: plc !== null };
}

/** What is wrong with the part of a value of this type, or undefined. */
export function partFault(type: string, part: string | undefined): string | undefined {
  if (part === undefined) return undefined;
  const [low, high = low] = part.split('-').map(Number) as [number, number?];
  const width = { i32: 32, u32: 32 }[type] ?? 16;
  if (!/^(bool|[iu](8|16|32))$/.test(type)) return `a ${type} is a whole value, not some bits of one`;
  if (part === 'hi' || part === 'lo') return type === 'bool' ? 'a bool is one bit, not a byte' : undefined;
  if (high >= width) return `a ${width === 32 ? type : 'register'} has the bits 0 to ${width - 1}, found ${high}`;
  if (low > high) return `the lower bit comes first, found ${part}`;
  return type === 'bool' && low !== high ? `a bool is one bit, found ${part}` : undefined;
}

/** Registers, or coils, that a value takes. */
export function registersOf(type: string, length: number | undefined, chars: string): number {
  if (type === 'string') return chars === 'both' ? Math.ceil((length ?? 1) / 2) : (length ?? 1);
  return { i32: 2, u32: 2, bcd32: 2, f32: 2, i64: 4, u64: 4, f64: 4 }[type] ?? 1;
}
