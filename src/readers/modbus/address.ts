import { HoldfastError } from '../../lib/errors.js';
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
  /** The bit of the register, 0 the lowest; null for a whole register, a coil or an input. */
  readonly bit: number | null;
}

const PLC_TABLES: Readonly<Record<string, Table>> = { 0: 'co', 1: 'di', 3: 'ir', 4: 'hr' };

/**
 * Reads `hr:107`, `ir:12`, `co:3`, `di:4` (PDU addresses, from 0), `hr:300.3` (a bit of a register), and, with `plc1`, the
 * notation of PLC manuals: table digit and a number from 1, so 40108 and 400108 are `hr:107`. Throws `config.invalid`.
 * Nothing is guessed: an address that is one off reads two halves of two values and looks plausible.
 */
export function parseAddress(at: string, addressing: Addressing): Address {
  const prefixed = /^(co|di|hr|ir):(\d{1,5})(?:\.(\d{1,2}))?$/.exec(at);
  if (prefixed) return checked(at, prefixed[1] as Table, Number(prefixed[2]), prefixed[3]);

  const plc = /^([0134])(\d{4,5})(?:\.(\d{1,2}))?$/.exec(at);
  if (!plc)
    throw invalid(at, 'is no Modbus address', 'Write hr:107, ir:12, co:3, di:4 or, for a bit of a register, hr:300.3.');
  if (addressing !== 'plc1')
    throw invalid(at, 'does not say where it counts from', 'Set addressing: plc1, or write it as hr:107, from 0.');
  return checked(at, PLC_TABLES[plc[1] as string] as Table, Number(plc[2]) - 1, plc[3]);
}

function checked(at: string, table: Table, address: number, bitText: string | undefined): Address {
  const bit = bitText === undefined ? null : Number(bitText);
  if (address < 0) throw invalid(at, 'is below the first address', 'PLC notation counts from 1.');
  if (address > 0xffff) throw invalid(at, 'is beyond address 65535');
  if (bit !== null && isBitTable(table)) throw invalid(at, 'asks for a bit of something that is one bit');
  if (bit !== null && bit > 15) throw invalid(at, 'asks for a bit beyond the 16 of a register');
  return { table, address, bit };
}

function invalid(at: string, what: string, hint?: string): HoldfastError {
  return new HoldfastError('config.invalid', `The address '${at}' ${what}`, {
    values: { at },
    ...(hint ? { hint } : {}),
  });
}
