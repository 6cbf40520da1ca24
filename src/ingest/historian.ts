import type { HoldfastError } from '../lib/errors.js';
import type { Epoch, GatewayId, Millis, Seq } from '../model/ids.js';
import type { Source } from '../model/row.js';
import type { Batch } from '../wire/batch.js';
import type { SeqRange } from './ledger.js';
import type { Rollups } from './rollups.js';

/**
 * Where readings end up. Any backend keeps these promises:
 *
 * - `ingest` and `bury` resolve only once a power cut cannot undo them, and then completely; when they reject, nothing of
 *   that batch is stored.
 * - The same batch again, a part of it, or batches in another order lead to the same content.
 * - Of two readings with one key and different values both are kept: the first as the reading, the other as a conflict.
 */
export const NO_TOTALS: Totals = {
  batches: 0,
  rows: 0,
  stored: 0,
  duplicates: 0,
  conflicts: 0,
  gaps: 0,
  quarantined: 0,
  opaque: 0,
  deadBatches: 0,
};

export interface Historian {
  /**
   * Rejects with `historian.io` when the store cannot take anything at the moment (try the same batch again), with
   * `historian.rejected` when it can never take this batch (bury it), and with `historian.closed`.
   */
  ingest(batch: Batch): Promise<Outcome>;
  /** Keeps bytes aside that cannot be ingested, so that they may be acknowledged without being lost. */
  bury(dead: DeadBatch): Promise<void>;
  /** Since the store was made. */
  totals(): Totals;
  /** The hourly rollups, and what there is to do for them. */
  readonly rollups: Rollups;
  /** What has arrived, per gateway and epoch. */
  ledger(): readonly LedgerEntry[];
  /** The same for one of them, of what is committed; undefined before its first batch. */
  entry(source: Source): LedgerEntry | undefined;
  /** Why the store cannot be used at the moment, as far as that is known. */
  readonly problem?: string | undefined;
  /** What an operator has set up so that the store will lose something, although it works. */
  readonly warning?: string | undefined;
  /** Resolves when the store may not be written any more before the process has been started anew. */
  readonly broken: Promise<HoldfastError>;
  close(): Promise<void>;
}

/** Clocks of plants that are kept by NTP differ by seconds; minutes ahead is a wrong clock. */
export const FUTURE_MS_MAX = 5 * 60_000;

/** What became of the rows of a batch: each is counted in exactly one of these. */
export interface Outcome {
  /** Readings that are new. */
  readonly stored: number;
  /** Rows that were here already. */
  readonly duplicates: number;
  /** Readings whose key is taken by another reading with another value. */
  readonly conflicts: number;
  readonly gaps: number;
  /** Rows kept aside: device times in the future or before the raw horizon, identities used twice. */
  readonly quarantined: number;
  /** Messages that are no readings. */
  readonly opaque: number;
}

export interface Totals extends Outcome {
  readonly batches: number;
  readonly rows: number;
  readonly deadBatches: number;
}

export interface DeadBatch {
  readonly topic: string;
  readonly bytes: Uint8Array;
  /** The code of the error that condemned it. */
  readonly code: string;
  readonly reason: string;
}

export interface LedgerEntry {
  readonly gateway: GatewayId;
  readonly epoch: Epoch;
  readonly received: readonly SeqRange[];
  /** What the gateway said it gave up on, received later or not. */
  readonly lost: readonly SeqRange[];
  /** Neither received nor given up: late, or lost without notice. */
  readonly holes: readonly SeqRange[];
  readonly last: Seq;
  readonly lastBatchAt: Millis;
  /** The newest device time among its readings that are not in the future. */
  readonly newestTs: Millis | null;
}
