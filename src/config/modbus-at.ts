/** Addresses 0 to 65535 in each of the four tables (Modbus application protocol 4.4). */
export const ADDRESSES = 65_536;

export type Table = 'co' | 'di' | 'ir' | 'hr';

export interface At {
  readonly table: Table;
  /** 0-based, as in the PDU. */
  readonly address: number;
  /** 0 is the least significant. */
  readonly bit: number | undefined;
  /** Written in the 1-based notation of PLC manuals, 40108 or 400108. */
  readonly plc: boolean;
}

const PDU = /^(co|di|ir|hr):(\d{1,5})(?:\.(\d{1,2}))?$/;
const PLC = /^([0134])(\d{4,5})(?:\.(\d{1,2}))?$/;
const TABLE_OF_DIGIT: Readonly<Record<string, Table>> = { 0: 'co', 1: 'di', 3: 'ir', 4: 'hr' };

/** What `at` points to, or what is wrong with it. */
export function parseAt(at: string): At | string {
  const plc = PLC.exec(at);
  const [, place, digits, bitDigits] = plc ?? PDU.exec(at) ?? [];
  if (place === undefined) return `expected co:, di:, hr: or ir: and a number from 0 to ${ADDRESSES - 1}, found ${at}`;
  const table = plc ? (TABLE_OF_DIGIT[place] as Table) : (place as Table);
  const address = Number(digits) - (plc ? 1 : 0);
  if (address < 0 || address >= ADDRESSES) return `no such address: ${at}`;
  const bit = bitDigits === undefined ? undefined : Number(bitDigits);
  if (bit !== undefined && (table === 'co' || table === 'di')) return 'only a register has bits';
  if (bit !== undefined && bit > 15) return `a register has the bits 0 to 15, found ${bit}`;
  return { table, address, bit, plc: plc !== null };
}

/** Registers, or coils, that a value takes. */
export function registersOf(type: string, length: number | undefined): number {
  if (type === 'string') return Math.ceil((length ?? 1) / 2);
  return { i32: 2, u32: 2, f32: 2, i64: 4, u64: 4, f64: 4 }[type] ?? 1;
}
