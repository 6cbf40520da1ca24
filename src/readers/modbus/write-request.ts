import { toRaw } from './conversion.js';
import { encode } from './encode.js';
import type { DeviceLimits } from './options.js';
import type { WriteRequest } from './requests.js';
import type { Tag } from './tag.js';

/**
 * The request that makes the tag have this value. Throws an error that says why not: nothing is cut off, wrapped, or sent
 * beyond the limits of the tag.
 *
 * A bit or a field is set by a mask write (function 22), in which the device itself keeps the other bits: reading the
 * register first and writing it back would undo what the PLC changed in between.
 */
export function writeRequestOf(tag: Tag, unit: number, value: unknown, limits: DeviceLimits): WriteRequest {
  demandAllowed(tag, value);
  const { address, format } = tag;
  if (!format) {
    const on = toRaw({ type: 'bool' }, tag.conversion, value);
    if (typeof on !== 'boolean') throw new Error('must be true or false');
    return limits.writeMultiple ? { fc: 15, unit, address, bits: [on] } : { fc: 5, unit, address, on };
  }
  const registers = encode(format, toRaw(format, tag.conversion, value));
  if (format.bits) {
    const ones = 2 ** (format.bits.high - format.bits.low + 1) - 1;
    const mask = encode({ ...format, type: 'u16' }, ones).readUInt16BE();
    return { fc: 22, unit, address, and: ~mask & 0xffff, or: registers.readUInt16BE() };
  }
  if (limits.readWrite) return { fc: 23, unit, address, registers };
  if (registers.length > 2 || limits.writeMultiple) return { fc: 16, unit, address, registers };
  return { fc: 6, unit, address, value: registers.readUInt16BE() };
}

function demandAllowed({ write }: Tag, value: unknown): void {
  if (!write) throw new Error('is not to be written');
  const { min, max } = write;
  if (min === undefined && max === undefined) return;
  if (typeof value !== 'number' && typeof value !== 'bigint') throw new Error('must be a number');
  // Comparisons between the two kinds of number are exact. NaN fits no limit.
  if (!(value >= (min ?? -Infinity) && value <= (max ?? Infinity)))
    throw new Error(`must be from ${min ?? 'anything'} to ${max ?? 'anything'}`);
}
