export type ReadFunction = 1 | 2 | 3 | 4;

export interface ReadRequest {
  readonly fc: ReadFunction;
  /** 0 to 255: on TCP a device may well want 0. */
  readonly unit: number;
  /** The address in the PDU, from 0. */
  readonly address: number;
  readonly quantity: number;
}

/** The functions that change something. Registers are bytes, high byte first. */
export type WriteRequest =
  | { readonly fc: 5; readonly unit: number; readonly address: number; readonly on: boolean }
  | { readonly fc: 6; readonly unit: number; readonly address: number; readonly value: number }
  | { readonly fc: 15; readonly unit: number; readonly address: number; readonly bits: readonly boolean[] }
  | { readonly fc: 16; readonly unit: number; readonly address: number; readonly registers: Buffer }
  /** register = (register & and) | (or & ~and) [Modbus Application Protocol 1.1b3, 6.16]. */
  | { readonly fc: 22; readonly unit: number; readonly address: number; readonly and: number; readonly or: number }
  /** Writes the registers, then reads them back, in one transaction. */
  | { readonly fc: 23; readonly unit: number; readonly address: number; readonly registers: Buffer };

/** [Modbus Application Protocol 1.1b3, 6.12, 6.17] */
export const REGISTERS_PER_WRITE_MAX = 121;

/** Data bytes of the answer to a read. */
export function dataBytesOf({ fc, quantity }: Pick<ReadRequest, 'fc' | 'quantity'>): number {
  return fc <= 2 ? Math.ceil(quantity / 8) : quantity * 2;
}
