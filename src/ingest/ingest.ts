import { type Clock, systemClock } from '../lib/clock.js';
import { Closer } from '../lib/closer.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import type { Histogram } from '../lib/histogram.js';
import { type Log, RateLimit } from '../lib/log.js';
import type { Millis } from '../model/ids.js';
import type { Batch } from '../wire/batch.js';
import { decodeBatch } from '../wire/decode.js';
import { identityOf } from '../wire/identity.js';
import { TopicTemplate } from '../wire/topic-template.js';
import { ackOf } from './ack-of.js';
import { type AckPolicy, AckSender } from './ack-sender.js';
import type { Historian } from './historian.js';
import { HttpDoor, type HttpDoorOptions } from './http-door.js';
import { type HistorianOptions, openWaiting } from './open-historian.js';
import type { OutageRules } from './outages.js';
import type { Receipt } from './receipt.js';
import { reconcileInThread } from './reconcile-thread.js';
import { RollupKeeper } from './rollups.js';
import { type IngestStatus, ingestStatus } from './status.js';
import { Subscriber, type SubscriberOptions } from './subscriber.js';
import { Watch } from './watch.js';
import { Work } from './work.js';

export interface IngestOptions {
  readonly historian: HistorianOptions;
  /** The broker that batches come from; absent: they come by HTTP only. */
  readonly broker?: SubscriberOptions;
  /** What gateways are told of what is stored. Default: those that ask, on `edge/{gateway}/ack`. */
  readonly acks?: { readonly policy: AckPolicy; readonly topic: string };
  /** The endpoint for batches by HTTP. */
  readonly http?: HttpDoorOptions;
  /** How often late readings are worked into the hourly rollups. */
  readonly rollupEveryMs?: number;
  /** When an outage is to be proved complete by itself; absent: never. */
  readonly outages?: OutageRules;
  /** What `close` may take to finish the batches that have arrived. */
  readonly closeBudgetMs?: number;
  readonly clock?: Clock;
}

const ACKS = { policy: 'asked', topic: 'edge/{gateway}/ack' } as const;
const CLOSE_BUDGET_MS = 5000;
const ROLLUP_EVERY_MS = 60_000;
/** Longer than any outage: only holes are watched. */
const NEVER: OutageRules = { afterMs: Number.POSITIVE_INFINITY, withinMs: Number.POSITIVE_INFINITY };

/**
 * The cloud side: takes batches from the broker and by HTTP, stores them, and acknowledges each only after the commit that holds it.
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
  private readonly work: Work;
  private readonly watch: Watch;
  private readonly startedAt: Millis;
  private subscriber: Subscriber | undefined;
  private door: HttpDoor | undefined;
  private storeProblem: string | undefined;

  private constructor(historian: Historian, options: IngestOptions, clock: Clock, log: Log) {
    this.historian = historian;
    this.clock = clock;
    this.log = log;
    this.startedAt = clock.now();
    this.work = new Work(clock);
    this.watch = new Watch({
      ...(options.outages ?? NEVER),
      ledger: () => historian.ledger(),
      reconcile: (window, signal) => reconcileInThread(options.historian, window, signal),
      clock,
      log,
    });
    this.failed = historian.broken;
  }

  /** Throws what is wrong with the store or the options; a broker that is away is waited for. */
  static async open(options: IngestOptions, log: Log): Promise<Ingest> {
    const clock = options.clock ?? systemClock;
    const historian = await openWaiting({ clock, ...options.historian }, log);
    const ingest = new Ingest(historian, options, clock, log);
    ingest.closer.push('historian', () => historian.close());
    ingest.closer.push('watch', () => ingest.watch.close());
    ingest.watch.start();
    const keeper = new RollupKeeper();
    ingest.closer.push('rollups', () => keeper.close());
    keeper.start(historian.rollups, options.rollupEveryMs ?? ROLLUP_EVERY_MS, clock, log);
    try {
      if (options.broker) ingest.subscribe(options.broker, options);
      if (options.http) {
        const door = await HttpDoor.open(options.http, (bytes) => ingest.receive('http', bytes), log);
        ingest.closer.push('http', () => door.close(options.closeBudgetMs ?? CLOSE_BUDGET_MS));
        ingest.door = door;
      }
      return ingest;
    } catch (error) {
      await ingest.close();
      throw error;
    }
  }

  status(): IngestStatus {
    const { historian, startedAt, subscriber, storeProblem } = this;
    return ingestStatus({
      historian,
      now: this.clock.now(),
      startedAt,
      connected: subscriber?.connected ?? this.door !== undefined,
      linkProblem: subscriber?.problem ?? null,
      storeProblem: storeProblem ?? historian.problem ?? null,
      worker: this.work.status(),
      watch: this.watch.status(),
    });
  }

  /** From the arrival of a batch until it was durable, in seconds. */
  get storeDuration(): Histogram {
    return this.work.storeDuration;
  }

  /** Address of the endpoint for batches, with the port really bound; null without one. */
  get httpUrl(): string | null {
    return this.door?.url ?? null;
  }

  close(): Promise<void> {
    return this.closer.close();
  }

  private subscribe(broker: SubscriberOptions, { acks = ACKS, closeBudgetMs = CLOSE_BUDGET_MS }: IngestOptions): void {
    const { clock, historian, log } = this;
    const sender = new AckSender({
      policy: acks.policy,
      topic: TopicTemplate.parse(acks.topic),
      historian,
      publish: (topic, payload) => subscriber.publish(topic, payload),
      log,
    });
    const deliver = async (topic: string, payload: Uint8Array) => {
      const receipt = await this.receive(topic, payload);
      if (receipt.kind === 'stored') {
        const { source, first, last, ack = false } = receipt.batch;
        sender.stored(source, { from: first, to: last }, ack);
      } else if (receipt.identity) {
        const { source, first, last, ack } = receipt.identity;
        sender.refused(source, { from: first, to: last }, receipt.reason, ack);
      }
    };
    const subscriber = Subscriber.open({ clock, ...broker }, deliver, log);
    this.closer.push('subscriber', () => subscriber.close(closeBudgetMs));
    this.subscriber = subscriber;
  }

  /** Resolves once nothing can undo that the bytes are here, as a batch or as dead bytes. */
  private async receive(topic: string, bytes: Uint8Array): Promise<Receipt> {
    const settle = this.work.begin(bytes.length);
    try {
      const receipt = await this.store(topic, bytes);
      settle(true);
      this.storeProblem = undefined;
      return receipt;
    } catch (error) {
      settle(false);
      this.storeProblem = messageOf(error);
      const held = this.rate.pass(this.storeProblem);
      if (held !== undefined) this.log.error({ topic, reason: this.storeProblem, held }, 'Cannot store a batch');
      throw error;
    }
  }

  private async store(topic: string, bytes: Uint8Array): Promise<Receipt> {
    let batch: Batch;
    try {
      batch = decodeBatch(bytes);
    } catch (error) {
      return this.bury(topic, bytes, error);
    }
    try {
      const outcome = await this.historian.ingest(batch);
      this.work.stored(outcome, batch.rows.length);
      const { source, first, last } = batch;
      this.log.debug({ ...source, first, last, ...outcome }, 'Stored a batch');
      const ack = () => ackOf(source, this.historian.entry(source), { from: first, to: last });
      return { kind: 'stored', batch, ack };
    } catch (error) {
      if (!(error instanceof HoldfastError && error.code === 'historian.rejected')) throw error;
      return this.bury(topic, bytes, error);
    }
  }

  private async bury(topic: string, bytes: Uint8Array, error: unknown): Promise<Receipt> {
    const code = error instanceof HoldfastError ? error.code : 'internal.assertion';
    const reason = messageOf(error);
    await this.historian.bury({ topic, bytes, code, reason });
    this.work.buried();
    const held = this.rate.pass(`${topic} ${code}`);
    if (held !== undefined) this.log.warn({ topic, code, reason, held }, 'Kept a batch aside that cannot be ingested');
    return { kind: 'kept-aside', identity: identityOf(bytes), code, reason };
  }
}
