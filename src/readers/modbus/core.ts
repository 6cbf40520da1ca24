import modbusSerial from 'modbus-serial';
import type { Port } from './port.js';
import type { ReadFunction } from './requests.js';

export interface ModbusError extends Error {
  readonly modbusCode?: number;
}

/** What is used of the answers that the core makes. */
interface Answer {
  readonly buffer: Buffer;
  readonly address: number;
  readonly state: boolean;
  readonly value: number;
  readonly length: number;
  readonly andMask: number;
  readonly orMask: number;
  readonly data: readonly number[];
}
type Callback = (error: ModbusError | null, answer?: Answer) => void;

/** What is used of modbus-serial's core. Its own types leave out the table, which must be cleared or it grows for ever. */
export type Core = Record<
  `writeFC${ReadFunction}`,
  (unit: number, address: number, quantity: number, done: Callback) => void
> & {
  writeFC5(unit: number, address: number, on: boolean, done: Callback): void;
  writeFC6(unit: number, address: number, value: number, done: Callback): void;
  writeFC15(unit: number, address: number, bits: readonly boolean[], done: Callback): void;
  writeFC16(unit: number, address: number, registers: Buffer, done: Callback): void;
  writeFC22(unit: number, address: number, and: number, or: number, done: Callback): void;
  writeFC23(
    unit: number,
    readAddress: number,
    readQuantity: number,
    writeAddress: number,
    writeQuantity: number,
    registers: Buffer,
    done: Callback,
  ): void;
  readonly _transactions: Record<number, unknown>;
};

/** modbus-serial as the maker and reader of PDUs over a port of ours. */
export function coreOver(port: Port): Core {
  const core = new modbusSerial.default(port);
  core.open();
  return core as unknown as Core;
}
