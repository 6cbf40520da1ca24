/**
 * One link's worth of replay: reads ahead of the link, encodes, keeps several batches in flight and releases what the cloud
 * has taken. It ends with its link and is thrown away; the next link gets a new one, which starts again at the first row
 * that was not released.
 */
import { assert } from '../lib/assert.js';
import { type Clock, sleep } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import type { Log } from '../lib/log.js';
import { Wake } from '../lib/wake.js';
import type { Seq } from '../model/ids.js';
import type { Spool } from '../spool/spool.js';
import type { LostRange } from '../wire/batch.js';
import type { Batcher, BatchLimits, EncodedBatch } from './batcher.js';
import { next, openWindow, type Window, type WindowEvent } from './replay-window.js';
import type { UpstreamLink, Verdict } from './upstream.js';

/** Read and encoded ahead of the link: enough that it never waits for the encoder, few enough to throw away. */
const AHEAD_MAX = 4;
/** Bytes of one read as they lie in the spool; their batch is several times smaller. */
const READ_BYTES_MAX = 4 * 1024 * 1024;
/** Told to the cloud on every link, so that a hole in the sequence is known for what it is. */
const DEAD_RANGES_MAX = 500;
const DRAIN_LOOK_MS = 5;

export interface CarrierOptions {
  readonly spool: Spool;
  readonly batcher: Batcher;
  readonly batchRowsMax: number;
  readonly batchBytesMax: number;
  readonly inFlightMax: number;
  /** A batch that is not full waits this long for more rows. */
  readonly lingerMs: number;
  /** A batch without an answer for this long ends the link: MQTT must not repeat it on the same one [MQTT-4.4.0-1]. */
  readonly ackTimeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

export interface CarrierEvents {
  sent(batch: EncodedBatch): void;
  taken(batch: EncodedBatch): void;
  held(cause: string): void;
  /** Nothing was acknowledged for half the deadline although something is in flight. */
  stalled(): void;
}

interface Ahead {
  batches: readonly EncodedBatch[] | undefined;
}

export class Carrier {
  private readonly options: CarrierOptions;
  private readonly link: UpstreamLink;
  private readonly events: CarrierEvents;
  private readonly wake = new Wake();
  private readonly windowMax: number;
  private readonly limits: BatchLimits;
  private window: Window;
  private readonly ahead: Ahead[] = [];
  private readAfter: Seq;
  private reading = false;
  private watching = false;
  private unreadSince: number;
  private readonly sentAt = new Map<Seq, number>();
  private lost: readonly LostRange[] = [];
  private stopping = false;
  private hurrying = false;
  private over: string | undefined;

  /** Starts after `released`. */
  constructor(link: UpstreamLink, released: Seq, options: CarrierOptions, events: CarrierEvents) {
    this.options = options;
    this.link = link;
    this.events = events;
    this.windowMax = Math.min(options.inFlightMax, link.limits.inFlightMax);
    const { payloadBytesMax, announced } = link.limits;
    const bytesMax = Math.min(options.batchBytesMax, payloadBytesMax);
    this.limits = { bytesMax, rowBytesMax: announced ? payloadBytesMax : bytesMax };
    this.window = openWindow(released);
    this.readAfter = this.window.after;
    this.unreadSince = options.clock.mono();
  }

  /** Everything up to here has been released, whether or not its deletion has been committed yet. */
  get released(): Seq {
    return this.window.released;
  }

  get batchesInFlight(): number {
    return this.window.flights.length;
  }

  /** Carries until the link ends; resolves with the reason in words. */
  async run(): Promise<string> {
    void this.link.closed.then((why) => {
      this.over = why;
      this.wake.notify();
    });
    try {
      const dead = await this.options.spool.dead(DEAD_RANGES_MAX);
      this.lost = dead.map(({ seq, reason }) => ({ from: seq, to: seq, reason }));
      while (this.over === undefined) {
        this.readAhead();
        this.sendAhead();
        await this.wake.wait(this.lookAgainMs());
        this.checkDeadline();
      }
    } catch (error) {
      this.link.destroy(messageOf(error));
    }
    return this.link.closed;
  }

  /**
   * Sends what the spool still holds without waiting for full batches, for up to `budgetMs` or until `hurry` aborts, then
   * ends the link. Call it when nothing new comes in any more; what the time does not suffice for stays in the spool.
   */
  async drain(budgetMs: number, hurry?: AbortSignal): Promise<void> {
    const { clock, spool } = this.options;
    this.hurrying = true;
    this.wake.notify();
    const end = clock.mono() + budgetMs;
    const empty = () => this.batchesInFlight === 0 && this.ahead.length === 0 && this.readAfter >= spool.tail;
    const late = () => hurry?.aborted === true || clock.mono() >= end;
    while (!empty() && this.over === undefined && !this.stopping && !late()) await sleep(DRAIN_LOOK_MS);
    this.stopping = true;
    await this.link.close();
  }

  private readAhead(): void {
    this.watchSpool();
    if (this.reading || this.stopping || this.ahead.length >= AHEAD_MAX || this.dueInMs() > 0) return;
    this.reading = true;
    void this.read()
      .catch((error) => this.link.destroy(messageOf(error)))
      .finally(() => {
        this.reading = false;
        this.wake.notify();
      });
  }

  /** Reads are one after the other, because each starts where the last one ended; encoding overlaps with them. */
  private async read(): Promise<void> {
    const { spool, batcher, batchRowsMax } = this.options;
    const rows = await spool.peek(this.readAfter, batchRowsMax, READ_BYTES_MAX);
    const newest = rows.at(-1);
    this.unreadSince = this.options.clock.mono();
    // What was counted as waiting has been set aside in the middle of the sequence: nothing is left up to the tail.
    if (!newest) {
      this.readAfter = spool.tail;
      return;
    }
    this.readAfter = newest.seq;
    const entry: Ahead = { batches: undefined };
    this.ahead.push(entry);
    const { lost } = this;
    this.lost = [];
    void batcher
      .encode(rows, this.limits, lost)
      .then((batches) => this.setAsideOversize(batches))
      .then((batches) => {
        entry.batches = batches;
        this.wake.notify();
      })
      .catch((error) => this.link.destroy(messageOf(error)));
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
          payload: await batcher.encodeLost({ from: batch.first, to: batch.last, reason: 'too-large' }),
        };
      }),
    );
  }

  private sendAhead(): void {
    while (!this.stopping && this.batchesInFlight < this.windowMax) {
      const [batch, ...rest] = this.ahead[0]?.batches ?? [];
      if (!batch) return;
      if (rest.length > 0) (this.ahead[0] as Ahead).batches = rest;
      else this.ahead.shift();
      this.send(batch);
    }
  }

  private send(batch: EncodedBatch): void {
    const { first, last, rows, payload } = batch;
    this.advance({ type: 'sent', first, last, rows });
    if (!payload) {
      this.advance({ type: 'acknowledged', last });
      return;
    }
    this.sentAt.set(last, this.options.clock.mono());
    this.events.sent(batch);
    this.link.send(payload, { first, last, rows }).then(
      (verdict) => this.answered(batch, verdict),
      // The link has closed: its reason is on the way, and everything in flight is sent again on the next one.
      () => {},
    );
  }

  private answered(batch: EncodedBatch, verdict: Verdict): void {
    if (this.over !== undefined) return;
    if (verdict.kind === 'held') {
      this.stopping = true;
      this.events.held(verdict.cause);
      void this.link.close();
      return;
    }
    this.sentAt.delete(batch.last);
    this.events.taken(batch);
    this.advance({ type: 'acknowledged', last: batch.last });
    this.wake.notify();
  }

  private advance(event: WindowEvent): void {
    const { window, release } = next(this.window, event);
    this.window = window;
    if (release === null) return;
    assert(release <= this.readAfter, 'only what was read is released', { release, readAfter: this.readAfter });
    this.options.spool.acknowledge(release);
  }

  /** Milliseconds until the rows that wait are to be read: 0 now, Infinity when there are none. */
  private dueInMs(): number {
    const { spool, batchRowsMax, lingerMs, clock } = this.options;
    const waiting = spool.tail - this.readAfter;
    if (waiting <= 0) {
      this.unreadSince = clock.mono();
      return Number.POSITIVE_INFINITY;
    }
    return waiting >= batchRowsMax || this.hurrying ? 0 : Math.max(0, this.unreadSince + lingerMs - clock.mono());
  }

  private lookAgainMs(): number {
    const due =
      this.reading || this.stopping || this.ahead.length >= AHEAD_MAX ? Number.POSITIVE_INFINITY : this.dueInMs();
    const silent = this.silentMs();
    if (silent === undefined) return due;
    const { ackTimeoutMs } = this.options;
    return Math.min(due, Math.max(1, (silent < ackTimeoutMs / 2 ? ackTimeoutMs / 2 : ackTimeoutMs) - silent));
  }

  private checkDeadline(): void {
    const silent = this.silentMs();
    if (silent === undefined || this.over !== undefined) return;
    const { ackTimeoutMs } = this.options;
    if (silent >= ackTimeoutMs) this.link.destroy(`no acknowledgement within ${ackTimeoutMs} ms`);
    else if (silent >= ackTimeoutMs / 2) this.events.stalled();
  }

  /** How long the oldest batch in flight has waited for its answer; undefined when nothing is in flight. */
  private silentMs(): number | undefined {
    const oldest = this.sentAt.values().next().value;
    return oldest === undefined ? undefined : this.options.clock.mono() - oldest;
  }

  private watchSpool(): void {
    if (this.watching) return;
    this.watching = true;
    void this.options.spool.changed().then(() => {
      this.watching = false;
      this.wake.notify();
    });
  }
}
