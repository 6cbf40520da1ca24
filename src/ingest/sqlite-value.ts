import type { ReadingType, ReadingValue } from '../model/reading.js';

/** What goes into and comes out of a `value` column, read with safe integers: see sqlite-schema.ts for the forms. */
export type StoredValue = null | number | bigint | string | Uint8Array;

const INT64_MAX = 2n ** 63n - 1n;

export function storedValue(type: ReadingType, value: ReadingValue): StoredValue {
  if (value === null) return null;
  switch (type) {
    case 'f':
      return Number.isNaN(value) ? 'NaN' : (value as number);
    case 'i': {
      const whole = BigInt(value as number | bigint);
      return whole > INT64_MAX ? whole.toString() : whole;
    }
    case 'b':
      return value ? 1n : 0n;
    case 's':
      return value as string;
    case 'x':
      return value as Uint8Array;
    case 'j':
      return JSON.stringify(value);
  }
}

export function sameValue(a: StoredValue, b: StoredValue): boolean {
  if (a instanceof Uint8Array) return b instanceof Uint8Array && Buffer.compare(a, b) === 0;
  return a === b;
}
