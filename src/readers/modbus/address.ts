import { HoldfastError } from '../../lib/errors.js';
import type { BitRange } from './decode.js';
import type { ReadFunction } from './requests.js';

/** Coils and discrete inputs hold bits, holding and input registers 16-bit words. */
export type Table = 'co' | 'di' | 'hr' | 'ir';

export const READ_FUNCTION: Readonly<Record<Table, ReadFunction>> = { co: 1, di: 2, hr: 3, ir: 4 };

export const isBitTable = (table: Table): boolean => table === 'co' || table === 'di';

/** How plain numbers are meant: `pdu0` allows none, `plc1` takes 40001 and 400001 for the first holding register. */
export type Addressing = 'pdu0' | 'plc1';

/** Inside, an address is always the number in the PDU, from 0. */
export interface Address {
  readonly table: Table;
  readonly address: number;
  /** The bits of the value that are meant, 0 the lowest; null for the whole value, a coil or an input. */
  readonly bits: BitRange | null;
}

const PART = String.raw`(?:\.(hi|lo|\d{1,2}(?:-\d{1,2})?))?`;
const PREFIXED = new RegExp(`^(co|di|hr|ir):(\\d{1,5})${PART}$`);
const IEC = new RegExp(`^%(MW|IW|M|I)(\\d{1,5})${PART}$`);
const PLC = new RegExp(`^([0134])(\\d{4,5})${PART}$`);
const PLC_TABLES: Readonly<Record<string, Table>> = { 0: 'co', 1: 'di', 3: 'ir', 4: 'hr' };
const IEC_TABLES: Readonly<Record<string, Table>> = { M: 'co', I: 'di', IW: 'ir', MW: 'hr' };
/** The bits of the widest value that can have fields. */
const BIT_MAX = 31;

/**
 * Reads `hr:107`, `ir:12`, `co:3`, `di:4` and the same as `%MW107`, `%IW12`, `%M3`, `%I4` (PDU addresses, from 0), with a
 * bit `hr:300.3`, a field `hr:300.4-7` or a byte `hr:300.hi`; and, with `plc1`, the notation of PLC manuals: table digit and
 * a number from 1, so 40108 and 400108 are `hr:107`. Throws `config.invalid`. Nothing is guessed: an address that is one off
 * reads two halves of two values and looks plausible.
 */
export function parseAddress(at: string, addressing: Addressing): Address {
  const prefixed = PREFIXED.exec(at);
  if (prefixed) return checked(at, prefixed[1] as Table, Number(prefixed[2]), prefixed[3]);
  const iec = IEC.exec(at);
  if (iec) return checked(at, IEC_TABLES[iec[1] as string] as Table, Number(iec[2]), iec[3]);

  const plc = PLC.exec(at);
  if (!plc)
    throw invalid(at, 'is no Modbus address', 'Write hr:107, ir:12, co:3, di:4 or, for a bit of a register, hr:300.3.');
  if (addressing !== 'plc1')
    throw invalid(at, 'does not say where it counts from', 'Set addressing: plc1, or write it as hr:107, from 0.');
  return checked(at, PLC_TABLES[plc[1] as string] as Table, Number(plc[2]) - 1, plc[3]);
}

/** The canonical form, as the plan and the logs show it. */
export function formatAddress(table: Table, address: number): string {
  return `${table}:${address}`;
}

function checked(at: string, table: Table, address: number, part: string | undefined): Address {
  if (address < 0) throw invalid(at, 'is below the first address', 'PLC notation counts from 1.');
  if (address > 0xffff) throw invalid(at, 'is beyond address 65535');
  if (part === undefined) return { table, address, bits: null };
  if (isBitTable(table)) throw invalid(at, 'asks for a bit of something that is one bit');
  const bits = bitsOf(part);
  if (bits.high > BIT_MAX) throw invalid(at, `asks for a bit beyond bit ${BIT_MAX}`);
  if (bits.low > bits.high) throw invalid(at, 'has its bits the wrong way round: the lower one comes first');
  return { table, address, bits };
}

function bitsOf(part: string): BitRange {
  if (part === 'lo') return { low: 0, high: 7 };
  if (part === 'hi') return { low: 8, high: 15 };
  const [low, high = low] = part.split('-').map(Number) as [number, number?];
  return { low, high };
}

function invalid(at: string, what: string, hint?: string): HoldfastError {
  return new HoldfastError('config.invalid', `The address '${at}' ${what}`, {
    values: { at },
    ...(hint ? { hint } : {}),
  });
}
