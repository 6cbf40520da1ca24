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
import type { Caution, Suspect } from './suspicion.js';
import type { UpstreamLink, Verdict } from './upstream.js';

/** Read and encoded ahead of the link: enough that it never waits for the encoder, few enough to throw away. */
const AHEAD_MAX = 6;
/** Bytes of one read as they lie in the spool; their batch is several times smaller. */
const READ_BYTES_MAX = 4 * 1024 * 1024;
const DRAIN_LOOK_MS = 5;
/** A link that ends so soon after a batch was sent may have ended because of it. */
const BLAME_WITHIN_MS = 10_000;

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
  released(upTo: Seq): void;
  /** Nothing was acknowledged for half the deadline although something is in flight. */
  stalled(): void;
}

/** How a link ended, and what may have been the reason: the oldest batch in flight, when the peer ended it soon after. */
export interface LinkEnd {
  readonly why: string;
  readonly suspect: (Suspect & { readonly alone: boolean; readonly named: boolean }) | null;
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
  private readonly caution: Caution | null;
  private refused: EncodedBatch | undefined;
  private refusal: string | undefined;
  private stopping = false;
  private ended = false;
  private hurrying = false;
  private over: string | undefined;

  /** Starts after `released`, and with care where earlier links have ended. */
  constructor(
    link: UpstreamLink,
    released: Seq,
    caution: Caution | null,
    options: CarrierOptions,
    events: CarrierEvents,
  ) {
    this.caution = caution;
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

  /** Rows up to here have been read for sending. */
  get readUpTo(): Seq {
    return this.readAfter;
  }

  get batchesInFlight(): number {
    return this.window.flights.length;
  }

  /** Carries until the link ends. */
  async run(): Promise<LinkEnd> {
    void this.link.closed.then((why) => {
      this.over = why;
      this.wake.notify();
    });
    try {
      while (this.over === undefined) {
        this.readAhead();
        this.sendAhead();
        await this.wake.wait(this.lookAgainMs());
        this.checkDeadline();
      }
    } catch (error) {
      this.end(messageOf(error));
    }
    const why = await this.link.closed;
    return { why: this.refusal ?? why, suspect: this.suspect() };
  }

  /** Only the peer's doing counts: what this side has ended says nothing about a batch. */
  private suspect(): LinkEnd['suspect'] {
    if (this.refused) return { ...this.refused, alone: true, named: true };
    const open = this.window.flights.filter(({ acknowledged }) => !acknowledged);
    const [oldest] = open;
    const silent = this.silentMs();
    if (!oldest || this.ended || this.stopping || silent === undefined || silent > BLAME_WITHIN_MS) return null;
    if (this.link.forbidden) return null;
    const alone = open.length === 1;
    return {
      first: oldest.first,
      last: oldest.last,
      rows: oldest.rows,
      alone,
      named: alone && this.link.blamed === true,
    };
  }

  /** Ends the link on this side's account. */
  private end(why: string): void {
    this.ended = true;
    this.link.destroy(why);
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
      .then(
        (isOver) => {
          if (isOver) this.reading = false;
        },
        (error) => this.end(messageOf(error)),
      )
      .finally(() => this.wake.notify());
  }

  /**
   * Reads are one after the other, because each starts where the last one ended; the next one fetches while these rows are
   * encoded. Resolves with whether it is for the caller to say that the reading is over.
   */
  private async read(): Promise<boolean> {
    const { spool, batcher } = this.options;
    const { rows, lost, unsound } = await spool.read(this.readAfter, this.rowsMax(), READ_BYTES_MAX);
    if (unsound.length > 0) {
      await this.setAsideUnsound(unsound);
      return true;
    }
    const newest = rows.at(-1);
    this.unreadSince = this.options.clock.mono();
    const entry: Ahead = { batches: undefined };
    if (!newest) {
      await this.readLost(lost, entry);
      return true;
    }
    this.readAfter = newest.seq;
    this.ahead.push(entry);
    this.reading = false;
    this.readAhead();
    void batcher
      .encode(rows, this.limits, lost)
      .then((batches) => this.setAsideOversize(batches))
      .then((batches) => {
        entry.batches = batches;
        this.wake.notify();
      })
      .catch((error) => this.end(messageOf(error)));
    return false;
  }

  /** Then it is read again from the same place, and the cloud is told with what is around them. */
  private async setAsideUnsound(seqs: readonly Seq[]): Promise<void> {
    const { spool, log } = this.options;
    log.error({ seqs }, 'Messages have changed on the disk; they are set aside');
    for (const seq of seqs) await spool.bury(seq, 'spool-corrupt');
  }

  /** No rows are left up to the tail, but perhaps word of some that will never come. */
  private async readLost(lost: readonly LostRange[], entry: Ahead): Promise<void> {
    const [first, last] = [lost[0], lost.at(-1)];
    if (!first || !last) {
      this.readAfter = this.options.spool.tail;
      return;
    }
    this.readAfter = last.to;
    this.ahead.push(entry);
    const payload = await this.options.batcher.encodeLost(lost);
    entry.batches = [{ first: first.from, last: last.to, rows: 0, payload }];
  }

  private rowsMax(): number {
    const { caution } = this;
    const { batchRowsMax } = this.options;
    return caution && this.readAfter < caution.until ? Math.min(batchRowsMax, caution.rowsMax) : batchRowsMax;
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

  private sendAhead(): void {
    const careful = this.caution !== null && this.window.released < this.caution.until;
    const windowMax = careful ? 1 : this.windowMax;
    while (!this.stopping && this.batchesInFlight < windowMax) {
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
    if (verdict.kind !== 'taken') {
      this.stopping = true;
      if (verdict.kind === 'refused') this.refused ??= batch;
      else this.events.held(verdict.cause);
      this.refusal ??= verdict.cause;
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
    this.events.released(release);
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
    if (silent >= ackTimeoutMs) this.end(`no acknowledgement within ${ackTimeoutMs} ms`);
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
