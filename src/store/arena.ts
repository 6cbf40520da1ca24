/**
 * Units travel to the store's thread as bytes in one transferred buffer: cloning objects between threads costs several
 * times more per message than writing and reading them here.
 *
 *     unit  = u16 number of operations, then each: u8 operation, u8 guard, u8 arguments, values
 *     value = u8 tag, then nothing (null) | i32 | f64 | i64 | u32 length + UTF-8 | u32 length + bytes
 */
import { assert } from '../lib/assert.js';
import type { Unit, Value } from './tables.js';

const NULL = 0;
const INT32 = 1;
const FLOAT64 = 2;
const INT64 = 3;
const TEXT = 4;
const BYTES = 5;

/** What its count can say; a transaction much larger would hold the thread for too long anyway. */
export const UNIT_OPERATIONS_MAX = 65_535;

const START_BYTES = 64 * 1024;
/** A UTF-16 code unit becomes at most three bytes of UTF-8. */
const UTF8_BYTES_PER_UNIT = 3;

export class ArenaWriter {
  private buffer: Buffer;
  private at = 0;
  units = 0;
  operations = 0;

  /** On a buffer that is not used any more, or a fresh one. */
  constructor(spent?: ArrayBuffer) {
    this.buffer = spent ? Buffer.from(spent) : Buffer.allocUnsafeSlow(START_BYTES);
  }

  get bytes(): number {
    return this.at;
  }

  write(unit: Unit): void {
    if (unit.length > UNIT_OPERATIONS_MAX) assert(false, 'a unit is bounded', { operations: unit.length });
    this.room(2);
    this.at = this.buffer.writeUInt16LE(unit.length, this.at);
    for (const { op, args, guard } of unit) {
      this.room(3);
      this.buffer[this.at++] = op;
      this.buffer[this.at++] = guard ? 1 : 0;
      this.buffer[this.at++] = args.length;
      for (const value of args) this.put(value);
    }
    this.units++;
    this.operations += unit.length;
  }

  /** The buffer, for transfer, after which this writer must not be used any more. */
  take(): ArrayBuffer {
    return this.buffer.buffer as ArrayBuffer;
  }

  private room(bytes: number): void {
    if (this.at + bytes <= this.buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.buffer.length, this.at + bytes));
    this.buffer.copy(larger, 0, 0, this.at);
    this.buffer = larger;
  }

  put(value: Value): void {
    if (typeof value === 'string') {
      this.room(5 + value.length * UTF8_BYTES_PER_UNIT);
      const length = this.buffer.write(value, this.at + 5, 'utf8');
      this.head(TEXT, length);
      this.at += length;
    } else if (typeof value === 'number') {
      this.room(9);
      if ((value | 0) === value && !Object.is(value, -0)) {
        this.buffer[this.at] = INT32;
        this.at = this.buffer.writeInt32LE(value, this.at + 1);
      } else {
        this.buffer[this.at] = FLOAT64;
        this.at = this.buffer.writeDoubleLE(value, this.at + 1);
      }
    } else if (value === null) {
      this.room(1);
      this.buffer[this.at++] = NULL;
    } else if (typeof value === 'bigint') {
      this.room(9);
      this.buffer[this.at] = INT64;
      this.at = this.buffer.writeBigInt64LE(value, this.at + 1);
    } else {
      this.room(5 + value.length);
      this.head(BYTES, value.length);
      this.buffer.set(value, this.at);
      this.at += value.length;
    }
  }

  private head(tag: number, length: number): void {
    this.buffer[this.at] = tag;
    this.at = this.buffer.writeUInt32LE(length, this.at + 1);
  }
}

export class ArenaReader {
  private readonly buffer: Buffer;
  private at = 0;

  constructor(buffer: ArrayBuffer, start = 0) {
    this.buffer = Buffer.from(buffer);
    this.at = start;
  }

  get offset(): number {
    return this.at;
  }

  /** Back to the start of a unit, to run it again. */
  seek(offset: number): void {
    this.at = offset;
  }

  count(): number {
    this.at += 2;
    return this.buffer.readUInt16LE(this.at - 2);
  }

  byte(): number {
    return this.buffer[this.at++] as number;
  }

  /** Byte values are views of the arena: bind them, do not keep them. */
  value(): Value {
    const tag = this.buffer[this.at++];
    switch (tag) {
      case NULL:
        return null;
      case INT32:
        this.at += 4;
        return this.buffer.readInt32LE(this.at - 4);
      case FLOAT64:
        this.at += 8;
        return this.buffer.readDoubleLE(this.at - 8);
      case INT64:
        this.at += 8;
        return this.buffer.readBigInt64LE(this.at - 8);
      case TEXT: {
        const [start, end] = this.span();
        return this.buffer.toString('utf8', start, end);
      }
      case BYTES: {
        const [start, end] = this.span();
        return this.buffer.subarray(start, end);
      }
      default:
        assert(false, 'an arena value has a known tag', { tag, at: this.at });
    }
  }

  private span(): [start: number, end: number] {
    const length = this.buffer.readUInt32LE(this.at);
    const start = this.at + 4;
    this.at = start + length;
    return [start, this.at];
  }
}
