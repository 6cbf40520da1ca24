import type { Millis, Seq } from './ids.js';

/**
 * How many readings of one metric and one hour of the device's time a gateway has made durable: what a store that claims
 * to be complete is held against. It counts the rows of one spool file with `first ≤ seq ≤ last`; when a quiet hour gets a
 * reading after its tally was put away, another tally begins, with a later `first`.
 */
export interface Tally {
  readonly asset: string;
  readonly metric: string;
  /** Start of the hour, UTC. */
  readonly hour: Millis;
  readonly first: Seq;
  readonly last: Seq;
  readonly count: number;
  /** Sum of `tallyTerm` over the rows, modulo `TALLY_MODULUS`. */
  readonly checksum: number;
}

/** Tallies as they travel, in the stream and in its order: `p` rows in this topic. No client can publish to a `$` topic. */
export const TALLY_TOPIC = '$holdfast/tally';
export const TALLY_HOUR_MS = 3_600_000;
export const TALLY_MODULUS = 2 ** 32;

/** The largest prime below 2¹⁶: a product of two remainders stays below the modulus, and SQL can compute the same. */
export const TALLY_PRIME = 65_521;

/** One row's part of the checksum; `offsetMs` is its time within the hour. The sum does not depend on the rows' order. */
export function tallyTerm(seq: number, offsetMs: number): number {
  return ((seq % TALLY_PRIME) + 1) * ((offsetMs % TALLY_PRIME) + 1);
}
