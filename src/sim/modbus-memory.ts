import { Buffer } from 'node:buffer';
import { ADDRESSES, isBitTable, type Table } from '../model/modbus.js';
import { COILS_MAX, EXCEPTION, exceptionPdu, REGISTERS_MAX } from './modbus-pdu.js';

/** Per request [Modbus Application Protocol V1.1b3 §6.11, §6.12, §6.17]. */
const COILS_WRITTEN_MAX = 1968;
const REGISTERS_WRITTEN_MAX = 123;

const READS: Readonly<Record<number, Table>> = { 1: 'co', 2: 'di', 3: 'hr', 4: 'ir' };

interface Words {
  readonly values: Uint16Array;
  /** 1 where the unit has something; everything else is a hole. */
  readonly exists: Uint8Array;
  /** 1 where a master wrote, so that nobody else does. */
  readonly written: Uint8Array;
}

class Refusal extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`exception ${code}`);
    this.code = code;
  }
}

/** The four tables of a unit, with holes, and the answers to functions 1 to 6, 15, 16, 22 and 23 on them. */
export class ModbusMemory {
  private readonly tables = new Map<Table, Words>();

  /** Makes these addresses exist. */
  add(table: Table, address: number, quantity: number): void {
    this.table(table).exists.fill(1, address, address + quantity);
  }

  isWritten(table: Table, address: number, quantity: number): boolean {
    return this.table(table)
      .written.subarray(address, address + quantity)
      .includes(1);
  }

  /** Sets the bits of `mask` only. */
  set(table: Table, address: number, value: number, mask = 0xffff): void {
    const { values } = this.table(table);
    values[address] = ((values[address] as number) & ~mask) | (value & mask);
  }

  /** The PDU that answers this one. */
  answer(pdu: Buffer): Buffer {
    try {
      return this.respond(pdu);
    } catch (error) {
      // A request that is too short is read beyond its end.
      const code =
        error instanceof Refusal ? error.code : error instanceof RangeError ? EXCEPTION.illegalValue : undefined;
      if (code === undefined) throw error;
      return exceptionPdu(pdu[0] ?? 0, code);
    }
  }

  private respond(pdu: Buffer): Buffer {
    const fc = pdu.readUInt8(0);
    const address = pdu.length > 1 ? pdu.readUInt16BE(1) : 0;
    const table = READS[fc];
    if (table) return this.read(fc, table, address, pdu.readUInt16BE(3));
    const [first, second] =
      fc === 5 || fc === 15 ? (['co', COILS_WRITTEN_MAX] as const) : (['hr', REGISTERS_WRITTEN_MAX] as const);
    switch (fc) {
      case 5: {
        const value = pdu.readUInt16BE(3);
        if (value !== 0 && value !== 0xff00) throw new Refusal(EXCEPTION.illegalValue);
        this.write(first, address, [value === 0 ? 0 : 1]);
        return pdu;
      }
      case 6:
        this.write(first, address, [pdu.readUInt16BE(3)]);
        return pdu;
      case 15:
      case 16: {
        const quantity = inRange(pdu.readUInt16BE(3), second);
        const value = (i: number) =>
          fc === 15 ? (pdu.readUInt8(6 + (i >> 3)) >> (i & 7)) & 1 : pdu.readUInt16BE(6 + i * 2);
        this.write(
          first,
          address,
          Array.from({ length: quantity }, (_, i) => value(i)),
        );
        return pdu.subarray(0, 5);
      }
      case 22: {
        const { values } = this.existing('hr', address, 1);
        const [and, or] = [pdu.readUInt16BE(3), pdu.readUInt16BE(5)];
        this.write('hr', address, [((values[address] as number) & and) | (or & ~and)]);
        return pdu;
      }
      case 23: {
        const quantity = inRange(pdu.readUInt16BE(7), REGISTERS_WRITTEN_MAX);
        const words = Array.from({ length: quantity }, (_, i) => pdu.readUInt16BE(10 + i * 2));
        this.existing('hr', address, pdu.readUInt16BE(3));
        this.write('hr', pdu.readUInt16BE(5), words);
        return this.read(fc, 'hr', address, pdu.readUInt16BE(3));
      }
      default:
        throw new Refusal(EXCEPTION.illegalFunction);
    }
  }

  private read(fc: number, table: Table, address: number, quantity: number): Buffer {
    const bits = isBitTable(table);
    inRange(quantity, bits ? COILS_MAX : REGISTERS_MAX);
    const { values } = this.existing(table, address, quantity);
    const data = Buffer.alloc(bits ? Math.ceil(quantity / 8) : quantity * 2);
    for (let i = 0; i < quantity; i++) {
      const value = values[address + i] as number;
      if (!bits) data.writeUInt16BE(value, i * 2);
      else if (value) data[i >> 3] = (data[i >> 3] as number) | (1 << (i & 7));
    }
    return Buffer.concat([Buffer.from([fc, data.length]), data]);
  }

  private write(table: Table, address: number, words: readonly number[]): void {
    const { values, written } = this.existing(table, address, words.length);
    values.set(words, address);
    written.fill(1, address, address + words.length);
  }

  private existing(table: Table, address: number, quantity: number): Words {
    const words = this.table(table);
    const there = address + quantity <= ADDRESSES && !words.exists.subarray(address, address + quantity).includes(0);
    if (!there) throw new Refusal(EXCEPTION.illegalAddress);
    return words;
  }

  private table(table: Table): Words {
    let words = this.tables.get(table);
    if (!words) {
      words = {
        values: new Uint16Array(ADDRESSES),
        exists: new Uint8Array(ADDRESSES),
        written: new Uint8Array(ADDRESSES),
      };
      this.tables.set(table, words);
    }
    return words;
  }
}

function inRange(quantity: number, max: number): number {
  if (quantity < 1 || quantity > max) throw new Refusal(EXCEPTION.illegalValue);
  return quantity;
}
