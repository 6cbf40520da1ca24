import type { Millis } from './ids.js';

/**
 * What a value is on the wire: `f` float, `i` 64-bit integer, `b` boolean, `s` string, `x` bytes, `j` JSON,
 * `p` opaque payload (a message that is no reading), `g` gap record.
 */
export type ValueType = 'f' | 'i' | 'b' | 's' | 'x' | 'j' | 'p' | 'g';
export type ReadingType = Exclude<ValueType, 'p' | 'g'>;

/** OPC quality byte: 192 good, 64 uncertain, 0 bad, with the sub-status in the low bits. */
export type Quality = number;
export const GOOD: Quality = 192;
export const UNCERTAIN: Quality = 64;
export const BAD: Quality = 0;

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** A null value goes with a quality that is not good: the device was asked and did not give one. */
export type ReadingValue = number | bigint | boolean | string | Uint8Array | Json;

/** One value of one metric of one asset at one time of the device. */
export interface Reading {
  readonly asset: string;
  readonly metric: string;
  readonly ts: Millis;
  readonly type: ReadingType;
  readonly value: ReadingValue;
  readonly quality: Quality;
}
