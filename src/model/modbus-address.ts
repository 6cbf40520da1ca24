import { ADDRESSES, type BitRange, isBitTable, type Table } from './modbus.js';

export interface Address {
  readonly table: Table;
  /** The number in the PDU, from 0. */
  readonly address: number;
  /** The bits of the value that are meant; null for the whole value, a coil or an input. */
  readonly bits: BitRange | null;
}

export interface WrittenAddress extends Address {
  /** Written in the notation of PLC manuals, which counts from 1: 40108 or 400108. */
  readonly plc: boolean;
  /** The same from 0, as it can be written anywhere. */
  readonly canonical: string;
}

const PART = String.raw`(?:\.(hi|lo|\d{1,2}(?:-\d{1,2})?))?`;
const PREFIXED = new RegExp(`^(co|di|hr|ir):(\\d{1,5}|0x[0-9A-Fa-f]{1,4})${PART}$`);
const IEC = new RegExp(`^%(MW|IW|M|I)(\\d{1,5})${PART}$`);
const PLC = new RegExp(`^([0134])(\\d{4,5})${PART}$`);
const PLC_TABLES: Readonly<Record<string, Table>> = { 0: 'co', 1: 'di', 3: 'ir', 4: 'hr' };
const IEC_TABLES: Readonly<Record<string, Table>> = { M: 'co', I: 'di', IW: 'ir', MW: 'hr' };

/**
 * What an address points to, or what is wrong with it: `hr:107`, `ir:12`, `co:3`, `di:4`, the number also as `0x6B`, and the
 * same as `%MW107`, `%IW12`, `%M3`, `%I4`, all from 0 as in the PDU; with a bit `hr:300.3`, a field `hr:300.4-7` or a byte
 * `hr:300.hi`. And the notation of PLC manuals: table digit and a number from 1, so that 40108 and 400108 are `hr:107`.
 * Nothing is guessed: an address that is one off reads two halves of two values and looks plausible.
 */
export function parseModbusAddress(at: string): WrittenAddress | string {
  const plc = PLC.exec(at);
  const [, place = '', digits, part] = plc ?? PREFIXED.exec(at) ?? IEC.exec(at) ?? [];
  if (digits === undefined)
    return `expected co:, di:, hr: or ir: and a number from 0 to ${ADDRESSES - 1}, found ${at === '' ? 'nothing' : at}`;
  const table = (plc ? PLC_TABLES[place] : IEC_TABLES[place]) ?? (place as Table);
  const address = Number(digits) - (plc ? 1 : 0);
  if (address < 0) return `no such address: ${at}; this notation counts from 1`;
  if (address >= ADDRESSES) return `no such address: ${at}`;
  const whole = `${table}:${address}`;
  if (part === undefined) return { table, address, bits: null, plc: plc !== null, canonical: whole };
  if (isBitTable(table)) return 'only a register has bits';
  const bits = bitsOf(part);
  if (bits.low > bits.high) return `the lower bit comes first, found ${part}`;
  return { table, address, bits, plc: plc !== null, canonical: `${whole}.${part}` };
}

function bitsOf(part: string): BitRange {
  if (part === 'lo') return { low: 0, high: 7 };
  if (part === 'hi') return { low: 8, high: 15 };
  const [low, high = low] = part.split('-').map(Number) as [number, number?];
  return { low, high };
}
