import { crc32 } from 'node:zlib';
import type { InsertArgs } from './tables.js';

/**
 * SQLite keeps no checksum of its pages, so a bit that flips in a payload would reach the historian as a value. This is
 * over everything that makes a row what it is; a row whose checksum is wrong is set aside when it is read.
 */
export function checksum(
  topic: string,
  payload: Uint8Array,
  props: Uint8Array | null,
  flags: number,
  asset: string | null,
  metric: string | null,
  deviceTs: number | null,
): number {
  const about = add(payload, crc32(`${flags}\n${deviceTs}\n${asset}\n${metric}\n${topic}`));
  return props === null ? about : add(props, about);
}

/** Whether a row is what was written; rows of older versions have no checksum. */
export function isSound(
  [topic, payload, props, flags, asset, metric, deviceTs]: InsertArgs,
  sum: number | null,
): boolean {
  try {
    return sum === null || sum === checksum(topic, payload, props, flags, asset, metric, deviceTs);
  } catch {
    // What is damaged may not even have the type of its column.
    return false;
  }
}

/** zlib takes a buffer without bytes for the wish to begin anew. */
function add(bytes: Uint8Array, sum: number): number {
  return bytes.length === 0 ? sum : crc32(bytes, sum);
}
