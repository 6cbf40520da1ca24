import { HoldfastError } from '../../lib/errors.js';
import type { Addressing, Table } from '../../model/modbus.js';
import { type Address, parseModbusAddress } from '../../model/modbus-address.js';
import type { ReadFunction } from './requests.js';

export const READ_FUNCTION: Readonly<Record<Table, ReadFunction>> = { co: 1, di: 2, hr: 3, ir: 4 };

/** See `parseModbusAddress`; `pdu0` allows no plain numbers. Throws `config.invalid`. */
export function parseAddress(at: string, addressing: Addressing): Address {
  const parsed = parseModbusAddress(at);
  if (typeof parsed === 'string') throw invalid(at, parsed);
  const { table, address, bits, plc, canonical } = parsed;
  if (plc && addressing !== 'plc1')
    throw invalid(at, 'it does not say where it counts from', `Set addressing: plc1, or write it as ${canonical}.`);
  return { table, address, bits };
}

/** The canonical form, as the plan and the logs show it. */
export function formatAddress(table: Table, address: number): string {
  return `${table}:${address}`;
}

function invalid(at: string, fault: string, hint?: string): HoldfastError {
  return new HoldfastError('config.invalid', `'${at}' is no address that can be read: ${fault}`, {
    values: { at },
    ...(hint ? { hint } : {}),
  });
}
