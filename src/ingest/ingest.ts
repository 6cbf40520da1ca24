import { type Clock, systemClock } from '../lib/clock.js';
import { Closer } from '../lib/closer.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import type { Millis } from '../model/ids.js';
import type { Batch } from '../wire/batch.js';
import { decodeBatch } from '../wire/decode.js';
import type { Historian, LedgerEntry, Totals } from './historian.js';
import { type HistorianOptions, openWaiting } from './open-historian.js';
import { RollupKeeper } from './rollups.js';
import { Subscriber, type SubscriberOptions } from './subscriber.js';

export interface IngestOptions {
  readonly historian: HistorianOptions;
  readonly broker: SubscriberOptions;
  /** How often late readings are worked into the hourly rollups. */
  readonly rollupEveryMs?: number;
  /** What `close` may take to finish the batches that have arrived. */
  readonly closeBudgetMs?: number;
  readonly clock?: Clock;
}

export interface IngestStatus extends Totals {
  readonly connected: boolean;
  /** Why there is no connection, or why nothing can be stored. */
  readonly problem: string | null;
  /** Seqs that are neither here nor given up, and the ranges they form. */
  readonly missing: number;
  readonly holes: number;
  readonly lastBatchAt: Millis | null;
  /** Age of the newest reading by its device's clock. */
  readonly freshnessMs: number | null;
  readonly ledger: readonly LedgerEntry[];
}

const CLOSE_BUDGET_MS = 5000;
const ROLLUP_EVERY_MS = 60_000;

/**
 * The cloud side: takes batches from the broker, stores them, and acknowledges each only after the commit that holds it.
 * Bytes that cannot be read or stored as a batch are kept aside first and acknowledged then, so they block nothing.
 */
export class Ingest {
  /** Resolves when the store must not be written any more and the process has to end; see `Historian.broken`. */
  readonly failed: Promise<HoldfastError>;
  private readonly historian: Historian;
  private readonly log: Log;
  private readonly clock: Clock;
  private readonly closer = new Closer();
  private readonly rate = new RateLimit();
  private subscriber: Subscriber | undefined;
  private storeProblem: string | undefined;

  private constructor(historian: Historian, clock: Clock, log: Log) {
    this.historian = historian;
    this.clock = clock;
    this.log = log;
    this.failed = historian.broken;
  }

  /** Throws what is wrong with the store or the options; a broker that is away is waited for. */
  static async open(options: IngestOptions, log: Log): Promise<Ingest> {
    const clock = options.clock ?? systemClock;
    const historian = await openWaiting({ clock, ...options.historian }, log);
    const ingest = new Ingest(historian, clock, log);
    ingest.closer.push('historian', () => historian.close());
    const keeper = new RollupKeeper();
    ingest.closer.push('rollups', () => keeper.close());
    keeper.start(historian.rollups, options.rollupEveryMs ?? ROLLUP_EVERY_MS, clock, log);
    try {
      const deliver = (topic: string, payload: Uint8Array) => ingest.deliver(topic, payload);
      const subscriber = Subscriber.open({ clock, ...options.broker }, deliver, log);
      ingest.closer.push('subscriber', () => subscriber.close(options.closeBudgetMs ?? CLOSE_BUDGET_MS));
      ingest.subscriber = subscriber;
      return ingest;
    } catch (error) {
      await ingest.close();
      throw error;
    }
  }

  status(): IngestStatus {
    const ledger = this.historian.ledger();
    const holes = ledger.flatMap((entry) => entry.holes);
    const newestTs = ledger.reduce((newest, entry) => Math.max(newest, entry.newestTs ?? -Infinity), -Infinity);
    const lastBatchAt = ledger.reduce((last, entry) => Math.max(last, entry.lastBatchAt), 0);
    return {
      ...this.historian.totals(),
      connected: this.subscriber?.connected ?? false,
      problem: this.storeProblem ?? this.historian.problem ?? this.subscriber?.problem ?? null,
      missing: holes.reduce((sum, { from, to }) => sum + (to - from + 1), 0),
      holes: holes.length,
      lastBatchAt: lastBatchAt > 0 ? (lastBatchAt as Millis) : null,
      freshnessMs: Number.isFinite(newestTs) ? this.clock.now() - newestTs : null,
      ledger,
    };
  }

  close(): Promise<void> {
    return this.closer.close();
  }

  /** Resolves once nothing can undo that the bytes are here, as a batch or as dead bytes. */
  private async deliver(topic: string, bytes: Uint8Array): Promise<void> {
    try {
      await this.store(topic, bytes);
      this.storeProblem = undefined;
    } catch (error) {
      this.storeProblem = messageOf(error);
      const held = this.rate.pass(this.storeProblem);
      if (held !== undefined) this.log.error({ topic, reason: this.storeProblem, held }, 'Cannot store a batch');
      throw error;
    }
  }

  private async store(topic: string, bytes: Uint8Array): Promise<void> {
    let batch: Batch;
    try {
      batch = decodeBatch(bytes);
    } catch (error) {
      return this.bury(topic, bytes, error);
    }
    try {
      const outcome = await this.historian.ingest(batch);
      const { source, first, last } = batch;
      this.log.debug({ ...source, first, last, ...outcome }, 'Stored a batch');
    } catch (error) {
      if (!(error instanceof HoldfastError && error.code === 'historian.rejected')) throw error;
      return this.bury(topic, bytes, error);
    }
  }

  private async bury(topic: string, bytes: Uint8Array, error: unknown): Promise<void> {
    const code = error instanceof HoldfastError ? error.code : 'internal.assertion';
    const reason = messageOf(error);
    await this.historian.bury({ topic, bytes, code, reason });
    const held = this.rate.pass(`${topic} ${code}`);
    if (held !== undefined) this.log.warn({ topic, code, reason, held }, 'Kept a batch aside that cannot be ingested');
  }
}
