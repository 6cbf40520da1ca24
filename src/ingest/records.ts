import type { Epoch, GatewayId, Millis, Seq } from '../model/ids.js';
import type { LedgerEntry } from './historian.js';
import type { SeqRange } from './ledger.js';

/**
 * What a historian holds, for reports. Reads only, next to an ingest that may be running; every answer is one consistent
 * look. All methods reject with `historian.io`.
 */
export interface Records {
  /** Per gateway, epoch, asset and metric: what the tallies of an hour count, and what is here of it. */
  tallied(hour: Millis, asset: string | undefined): Promise<TalliedHour[]>;
  /** Gap records that overlap the window, oldest first. */
  gaps(window: Window): Promise<GapRecord[]>;
  /** Devices that have fallen silent, by now; `asset` narrows it down to one. */
  silences(asset: string | undefined): Promise<Silence[]>;
  /** Jumps in the sequence as they were noticed, closed since or not. */
  jumps(): Promise<Jump[]>;
  /** What gateways gave up on, and why. */
  lost(): Promise<LostRecord[]>;
  /** What was kept aside, the newest first, at most `limit` of it, and how many there are by reason. */
  kept(kind: KeptKind, limit: number): Promise<Kept>;
  ledger(): Promise<readonly LedgerEntry[]>;
  close(): Promise<void>;
}

/** Half open: `from` is in it, `to` is not. */
export interface Window {
  readonly from: Millis;
  readonly to: Millis;
  readonly asset?: string | undefined;
}

interface Origin {
  readonly gateway: GatewayId;
  readonly epoch: Epoch;
}

export interface TalliedHour extends Origin {
  readonly asset: string;
  readonly metric: string;
  /** Readings that the gateway counted, 0 when no tally of the hour has arrived. */
  readonly expected: number;
  /** Seqs of the counted readings lie from `first` to `last`; the tallies count every one up to `upTo`. */
  readonly first: Seq | null;
  readonly last: Seq | null;
  readonly upTo: Seq | null;
  /** What is here of the counted seqs: as readings, as conflicts, absorbed by an equal reading, or in quarantine. */
  readonly found: number;
  /** Whether what is here has the gateway's checksum. */
  readonly same: boolean;
  /** Here, and not counted by any tally that has arrived. */
  readonly uncounted: number;
}

export interface GapRecord extends Origin {
  readonly seq: Seq;
  readonly asset: string;
  readonly metric: string | null;
  readonly from: Millis;
  readonly to: Millis;
  readonly count: number | null;
  readonly reason: string;
  readonly detail: string | null;
  /** Readings within the gap that are here all the same. */
  readonly found: number;
  /** There are readings from its end or after it. */
  readonly resumed: boolean;
}

/** A device from which nothing has come for `SILENT_STEPS` of its usual intervals. */
export interface Silence {
  readonly asset: string;
  /** `late`: nothing newer has come from its gateway either, so it may be in the spool. `open`: only the device is silent. */
  readonly state: 'open' | 'late';
  /** Its newest reading. */
  readonly from: Millis;
  readonly to: Millis;
  /** What the device's fastest metric usually takes from reading to reading. */
  readonly intervalMs: number;
  /** Where that reading came from. */
  readonly gateway: GatewayId;
}

/** The usual interval is the median of this many, so one outage among them does not count; with fewer none is known. */
export const SILENT_SAMPLES = 20;
/** A reading or two are missed now and then; so many in a row are not. */
export const SILENT_STEPS = 10;
/** Batches take seconds to arrive, and clocks differ. */
export const SILENT_MS_MIN = 2 * 60_000;

/** Rows in quarantine, readings whose key was taken, batches that could not be read. */
export type KeptKind = 'quarantine' | 'conflicts' | 'dead';

export interface Kept {
  readonly counts: readonly { readonly reason: string; readonly count: number }[];
  readonly rows: readonly (KeptRow | KeptBatch)[];
}

export interface KeptRow extends Origin {
  readonly seq: Seq;
  readonly reason: string;
  readonly asset: string | null;
  readonly metric: string | null;
  readonly ts: number;
  /** As text, bytes in hexadecimal, cut to 200 characters; null for a reading without a value. */
  readonly value: string | null;
  readonly quality: number;
  /** Of a conflict: what the reading has that was first. */
  readonly kept: string | null;
  readonly receivedAt: Millis;
}

export interface KeptBatch {
  readonly id: number;
  readonly topic: string;
  readonly reason: string;
  readonly detail: string;
  readonly bytes: number;
  readonly receivedAt: Millis;
}

export interface Jump extends Origin, SeqRange {
  readonly noticedAt: Millis;
}

export interface LostRecord extends Origin, SeqRange {
  readonly reason: string;
}
