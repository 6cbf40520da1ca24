import { Packr, Unpackr } from 'msgpackr';

/**
 * Standard msgpack only. msgpackr's defaults use a record extension that other readers refuse, three-byte map headers
 * and an extension for undefined.
 */
const packr = new Packr({ useRecords: false, variableMapSize: true, encodeUndefinedAsNil: true });
// The type of `int64AsType` does not list `auto`, which is documented: a number where it is exact, else a BigInt.
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true, int64AsType: 'auto' as 'bigint' });

/** An own copy: `pack` returns a slice of a pool that the next call overwrites. */
export function pack(value: unknown): Buffer {
  return Buffer.from(packr.pack(value));
}

/** Throws whatever msgpackr throws on bytes that are not exactly one value. */
export function unpack(bytes: Uint8Array): unknown {
  return unpackr.unpack(bytes);
}

/** msgpackr writes whole numbers beyond 32 bits as floats, which strict readers refuse as integers. */
export function wireInteger(value: number | bigint): number | bigint {
  if (typeof value === 'bigint') return value;
  return value > 0xffff_ffff || value < -0x8000_0000 ? BigInt(value) : value;
}
