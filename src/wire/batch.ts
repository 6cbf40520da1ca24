import { HoldfastError } from '../lib/errors.js';
import type { Millis, Seq } from '../model/ids.js';
import type { Quality, ReadingType, ReadingValue } from '../model/reading.js';
import type { Source } from '../model/row.js';
import type { GapBody } from './gap.js';

/** A piece of one gateway's spool as it arrives: it stands alone, may come twice and in any order. */
export interface Batch {
  readonly source: Source;
  /** The first and last seq that the batch covers. */
  readonly first: Seq;
  readonly last: Seq;
  /** In rising seq order. */
  readonly rows: readonly BatchRow[];
  readonly lost: readonly LostRange[];
  /** Units of measure of series in it. A series without one here may well have one. */
  readonly units?: readonly SeriesUnit[];
  /** Sent late: older than the live horizon when it left. */
  readonly hist: boolean;
  /** The gateway keeps the rows until the consumer has said that it holds them; see ack.ts. */
  readonly ack?: boolean;
}

export interface SeriesUnit {
  readonly asset: string;
  readonly metric: string;
  readonly unit: string;
}

/** A seq range, both ends in it, that the gateway gave up on. */
export interface LostRange {
  readonly from: Seq;
  readonly to: Seq;
  readonly reason: string;
}

interface RowHead {
  readonly seq: Seq;
  readonly topic: string;
  /** The device's time; for opaque messages the time the gateway took them. */
  readonly ts: Millis;
  readonly quality: Quality;
  readonly retain: boolean;
}

export interface ReadingRow extends RowHead {
  readonly type: ReadingType;
  readonly asset: string;
  readonly metric: string;
  readonly value: ReadingValue;
}

export interface OpaqueRow extends RowHead {
  readonly type: 'p';
  readonly asset: null;
  readonly metric: null;
  readonly payload: Uint8Array;
}

export interface GapRow extends RowHead {
  readonly type: 'g';
  readonly asset: string;
  readonly metric: string | null;
  readonly gap: GapBody;
}

export type BatchRow = ReadingRow | OpaqueRow | GapRow;

/** The only format major there is. A batch of another one is kept aside by its reader, never dropped. */
export const BATCH_VERSION = 1;
export const BATCH_CONTENT_TYPE = 'application/vnd.holdfast.batch+msgpack';

export interface DecodeLimits {
  /** Far above what any gateway sends; a decompression bomb ends here instead of in the out-of-memory killer. */
  readonly inflatedBytesMax: number;
  readonly rowsMax: number;
}
export const DECODE_LIMITS: DecodeLimits = { inflatedBytesMax: 32 * 1024 * 1024, rowsMax: 100_000 };

export function malformed(what: string, values: Record<string, unknown> = {}, cause?: unknown): HoldfastError {
  return new HoldfastError('wire.malformed', `The batch is malformed: ${what}`, { values, cause });
}
