/**
 * Reads the spool ahead of a link and encodes what it reads, so that the link never waits for either. What has been read and
 * was not sent is thrown away with the link.
 */
import type { Clock } from '../lib/clock.js';
import type { Log } from '../lib/log.js';
import type { Seq } from '../model/ids.js';
import type { Spool } from '../spool/spool.js';
import type { LostRange } from '../wire/batch.js';
import type { Batcher, BatchLimits, EncodedBatch } from './batcher.js';
import type { Caution } from './suspicion.js';

/** Enough that the link never waits for the encoder, few enough to throw away. */
const AHEAD_MAX = 6;
/** Bytes of one read as they lie in the spool; their batch is several times smaller. */
const READ_BYTES_MAX = 4 * 1024 * 1024;

export interface ReadAheadOptions {
  readonly spool: Spool;
  readonly batcher: Batcher;
  readonly batchRowsMax: number;
  /** A batch that is not full waits this long for more rows. */
  readonly lingerMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

export interface ReadAheadEvents {
  /** There may be something to take, or to read. */
  ready(): void;
  /** Nothing can be read or encoded any more. */
  failed(error: unknown): void;
}

interface Entry {
  batches: readonly EncodedBatch[] | undefined;
}

export class ReadAhead {
  private readonly options: ReadAheadOptions;
  private readonly limits: BatchLimits;
  private readonly caution: Caution | null;
  private readonly events: ReadAheadEvents;
  private readonly entries: Entry[] = [];
  private after: Seq;
  private reading = false;
  private watching = false;
  private unreadSince: number;
  private hurrying = false;
  private stopped = false;

  /** Begins behind `after`. */
  constructor(
    after: Seq,
    limits: BatchLimits,
    caution: Caution | null,
    options: ReadAheadOptions,
    events: ReadAheadEvents,
  ) {
    this.after = after;
    this.limits = limits;
    this.caution = caution;
    this.options = options;
    this.events = events;
    this.unreadSince = options.clock.mono();
  }

  /** Rows up to here have been read. */
  get readUpTo(): Seq {
    return this.after;
  }

  get isEmpty(): boolean {
    return this.entries.length === 0;
  }

  /** From now on no row waits for others to fill its batch. */
  hurry(): void {
    this.hurrying = true;
    this.events.ready();
  }

  /** Reads nothing more. */
  stop(): void {
    this.stopped = true;
  }

  /** The next batch, if it is encoded by now. */
  take(): EncodedBatch | undefined {
    const [entry] = this.entries;
    const [batch, ...rest] = entry?.batches ?? [];
    if (!entry || !batch) return undefined;
    if (rest.length > 0) entry.batches = rest;
    else this.entries.shift();
    return batch;
  }

  /** Starts to read if there is anything to read and room for it. */
  fill(): void {
    this.watchSpool();
    if (!this.mayRead() || this.waitMs() > 0) return;
    this.reading = true;
    void this.read()
      .then(
        (isOver) => {
          if (isOver) this.reading = false;
        },
        (error) => this.events.failed(error),
      )
      .finally(() => this.events.ready());
  }

  /** Milliseconds until `fill` has something to do: 0 now, Infinity when only an event can tell. */
  dueInMs(): number {
    return this.mayRead() ? this.waitMs() : Number.POSITIVE_INFINITY;
  }

  private mayRead(): boolean {
    return !this.reading && !this.stopped && this.entries.length < AHEAD_MAX;
  }

  private waitMs(): number {
    const { spool, batchRowsMax, lingerMs, clock } = this.options;
    const waiting = spool.tail - this.after;
    if (waiting <= 0) {
      this.unreadSince = clock.mono();
      return Number.POSITIVE_INFINITY;
    }
    return waiting >= batchRowsMax || this.hurrying ? 0 : Math.max(0, this.unreadSince + lingerMs - clock.mono());
  }

  /**
   * Reads are one after the other, because each starts where the last one ended; the next one fetches while these rows are
   * encoded. Resolves with whether it is for the caller to say that the reading is over.
   */
  private async read(): Promise<boolean> {
    const { spool, batcher } = this.options;
    const { rows, lost, unsound } = await spool.read(this.after, this.rowsMax(), READ_BYTES_MAX);
    if (unsound.length > 0) {
      await this.setAsideUnsound(unsound);
      return true;
    }
    const newest = rows.at(-1);
    this.unreadSince = this.options.clock.mono();
    const entry: Entry = { batches: undefined };
    if (!newest) {
      await this.readLost(lost, entry);
      return true;
    }
    this.after = newest.seq;
    this.entries.push(entry);
    this.reading = false;
    this.fill();
    void batcher
      .encode(rows, this.limits, lost)
      .then((batches) => this.setAsideOversize(batches))
      .then((batches) => {
        entry.batches = batches;
        this.events.ready();
      })
      .catch((error) => this.events.failed(error));
    return false;
  }

  /** Then it is read again from the same place, and the cloud is told with what is around them. */
  private async setAsideUnsound(seqs: readonly Seq[]): Promise<void> {
    const { spool, log } = this.options;
    log.error({ seqs }, 'Messages have changed on the disk; they are set aside');
    for (const seq of seqs) await spool.bury(seq, 'spool-corrupt');
  }

  /** No rows are left up to the tail, but perhaps word of some that will never come. */
  private async readLost(lost: readonly LostRange[], entry: Entry): Promise<void> {
    const [first, last] = [lost[0], lost.at(-1)];
    if (!first || !last) {
      this.after = this.options.spool.tail;
      return;
    }
    this.after = last.to;
    this.entries.push(entry);
    const payload = await this.options.batcher.encodeLost(lost);
    entry.batches = [{ first: first.from, last: last.to, rows: 0, payload }];
  }

  private rowsMax(): number {
    const { caution } = this;
    const { batchRowsMax } = this.options;
    return caution && this.after < caution.until ? Math.min(batchRowsMax, caution.rowsMax) : batchRowsMax;
  }

  /** A row that no batch can hold goes to the dead letters, and the cloud is told of the hole it leaves. */
  private async setAsideOversize(batches: readonly EncodedBatch[]): Promise<EncodedBatch[]> {
    const { spool, batcher, log } = this.options;
    return Promise.all(
      batches.map(async (batch) => {
        if (batch.payload) return batch;
        log.error(
          { seq: batch.first, bytesMax: this.limits.rowBytesMax },
          'A message is larger than the upstream takes; it is set aside',
        );
        await spool.bury(batch.first, 'too-large');
        return {
          ...batch,
          payload: await batcher.encodeLost([{ from: batch.first, to: batch.last, reason: 'too-large' }]),
        };
      }),
    );
  }

  private watchSpool(): void {
    if (this.watching) return;
    this.watching = true;
    void this.options.spool.changed().then(() => {
      this.watching = false;
      this.events.ready();
    });
  }
}
