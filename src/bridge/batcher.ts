/**
 * Rows to batches that fit: encode, compress, measure, and when a batch is over the limit halve its rows. A row that is over
 * it alone travels alone if the peer takes that much; if not it comes back without a payload, so that it cannot go round and
 * round.
 */
import type { Seq } from '../model/ids.js';
import type { Source, SpoolRow } from '../model/row.js';
import type { Units } from '../model/unit.js';
import type { LostRange } from '../wire/batch.js';
import { encodeColumns } from '../wire/columns.js';
import { compress } from '../wire/compress.js';
import { encodeRows } from '../wire/rows.js';

export type BatchFormat = 'columns' | 'rows-json' | 'rows-msgpack';

export interface BatcherOptions {
  readonly source: Source;
  readonly format: BatchFormat;
  readonly compression: 'gzip' | 'none';
  /** Whether the batches ask the consumer for its own acknowledgement. */
  readonly asksForAck?: boolean;
  /** Units of measure, which only the columns format carries. */
  readonly units?: Units;
}

export interface BatchLimits {
  /** Bytes of a batch of several rows. */
  readonly bytesMax: number;
  /** Bytes of a batch of one row; not below `bytesMax`. */
  readonly rowBytesMax: number;
}

export interface EncodedBatch {
  readonly first: Seq;
  readonly last: Seq;
  readonly rows: number;
  /** Undefined for a single row that does not fit. */
  readonly payload: Uint8Array | undefined;
}

export class Batcher {
  private readonly options: BatcherOptions;

  constructor(options: BatcherOptions) {
    this.options = options;
  }

  /** The rows, all of them and in order, as one or more batches within the limits. `lost` goes with the first. */
  async encode(
    rows: readonly SpoolRow[],
    limits: BatchLimits,
    lost: readonly LostRange[] = [],
  ): Promise<EncodedBatch[]> {
    const payload = await this.payload(rows, lost);
    const first = (rows[0] as SpoolRow).seq;
    const last = (rows.at(-1) as SpoolRow).seq;
    if (payload.length <= (rows.length === 1 ? limits.rowBytesMax : limits.bytesMax))
      return [{ first, last, rows: rows.length, payload }];
    if (rows.length === 1)
      return lost.length > 0 ? this.encode(rows, limits) : [{ first, last, rows: 1, payload: undefined }];
    const middle = Math.ceil(rows.length / 2);
    return [
      ...(await this.encode(rows.slice(0, middle), limits, lost)),
      ...(await this.encode(rows.slice(middle), limits)),
    ];
  }

  /** A batch that only says which rows will never come. */
  encodeLost(ranges: readonly LostRange[]): Promise<Uint8Array> {
    return this.payload([], ranges);
  }

  private async payload(rows: readonly SpoolRow[], lost: readonly LostRange[]): Promise<Uint8Array> {
    const { source, format, compression, asksForAck = false, units } = this.options;
    const bytes =
      format === 'columns'
        ? encodeColumns(source, rows, { lost, ack: asksForAck, units })
        : encodeRows(source, rows, format === 'rows-json' ? 'json' : 'msgpack', lost);
    return compression === 'gzip' ? compress(bytes) : bytes;
  }
}
