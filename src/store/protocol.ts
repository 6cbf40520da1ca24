/**
 * What the two sides of the store say to each other. Every request gets exactly one reply with its id, in order, until the
 * file has failed: that can come at any time, and is the last word.
 */

import type { Damage } from './tables.js';

export interface WorkerOptions {
  readonly path: string;
  readonly busyTimeoutMs: number | undefined;
  readonly pagesMax: number | undefined;
  readonly logPagesMax: number;
  readonly ballastBytes: number | undefined;
  /** URLs of the modules that own tables (see `Tables`), in the order of their operations. */
  readonly tables: readonly string[];
}

export interface Opened {
  readonly operations: readonly string[];
  readonly gauges: readonly string[];
  readonly sqlite: string;
  readonly trustsPowersafeOverwrite: boolean;
  /** An earlier run ended with an I/O error; the files lie on fresh blocks now. */
  readonly healed: boolean;
  readonly damage: Damage | undefined;
}

/** A group: units in the order of submission, and units that only needed some transaction to ride in. */
export interface Batch {
  /** Where in the buffer the first unit begins, and where the last one ends. */
  readonly start: number;
  readonly end: number;
  readonly buffer: ArrayBuffer;
  readonly units: number;
  readonly operations: number;
}

export type Request =
  | { readonly kind: 'group'; readonly id: number; readonly group: Batch | null; readonly riders: Batch | null }
  | { readonly kind: 'query'; readonly id: number; readonly name: string; readonly args: readonly unknown[] }
  | { readonly kind: 'close'; readonly id: number };

export interface Failure {
  readonly code: string;
  readonly message: string;
}

export type Reply =
  | { readonly kind: 'opened'; readonly opened: Opened; readonly gauges: Float64Array }
  | { readonly kind: 'broken'; readonly failure: Failure; readonly hint: string | undefined }
  /** One number per operation of the group, NaN where it returned nothing or was skipped; failures by unit. */
  | {
      readonly kind: 'committed';
      readonly id: number;
      readonly results: Float64Array;
      readonly failures: ReadonlyMap<number, Failure> | null;
      readonly gauges: Float64Array;
      /** The group's buffer, to be written again: a fresh one for every group would be most of the garbage there is. */
      readonly spent: ArrayBuffer | null;
    }
  /** No space: what fitted of the group is committed (`done` units), the rest is here again; so are riders that did not fit. */
  | {
      readonly kind: 'full';
      readonly id: number;
      readonly done: number;
      readonly results: Float64Array;
      readonly group: Batch | null;
      readonly riders: Batch | null;
      readonly gauges: Float64Array;
    }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown; readonly gauges: Float64Array }
  | { readonly kind: 'refused'; readonly id: number; readonly failure: Failure }
  /** The file can no longer be trusted to take a write: nothing will be committed any more. */
  | { readonly kind: 'failed'; readonly failure: Failure }
  | { readonly kind: 'closed'; readonly id: number };

/** For transfer: large answers change hands instead of being copied. */
export function buffersOf(...batches: readonly (Batch | null)[]): ArrayBuffer[] {
  return batches.flatMap((batch) => (batch ? [batch.buffer] : []));
}
