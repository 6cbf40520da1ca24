/**
 * One link's worth of replay: reads ahead of the link, encodes, keeps several batches in flight and releases what the cloud
 * has taken. It ends with its link and is thrown away; the next link gets a new one, which starts again at the first row
 * that was not released.
 */
import { assert } from '../lib/assert.js';
import { sleep } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import { Wake } from '../lib/wake.js';
import type { Seq } from '../model/ids.js';
import type { EncodedBatch } from './batcher.js';
import { ReadAhead, type ReadAheadOptions } from './read-ahead.js';
import { next, openWindow, type Window, type WindowEvent } from './replay-window.js';
import type { Caution, Suspect } from './suspicion.js';
import type { UpstreamLink, Verdict } from './upstream.js';

const DRAIN_LOOK_MS = 5;
/** A link that ends so soon after a batch was sent may have ended because of it. */
const BLAME_WITHIN_MS = 10_000;

export interface CarrierOptions extends ReadAheadOptions {
  readonly batchBytesMax: number;
  /** Batches without an answer. A link may take fewer. */
  readonly inFlightMax: number;
  /** A batch without an answer for this long ends the link: MQTT must not repeat it on the same one [MQTT-4.4.0-1]. */
  readonly ackTimeoutMs: number;
}

export interface CarrierEvents {
  sent(batch: EncodedBatch): void;
  taken(batch: EncodedBatch): void;
  held(cause: string): void;
  released(upTo: Seq): void;
  /** Nothing was acknowledged for half the deadline although something is in flight; what is waited for, in words. */
  stalled(cause: string): void;
}

/** How a link ended, and what may have been the reason: the oldest batch in flight, when the peer ended it soon after. */
export interface LinkEnd {
  readonly why: string;
  /** How long the peer wants to be left alone. */
  readonly pauseMs: number;
  readonly suspect: (Suspect & { readonly alone: boolean; readonly named: boolean }) | null;
}

export class Carrier {
  private readonly options: CarrierOptions;
  private readonly link: UpstreamLink;
  private readonly events: CarrierEvents;
  private readonly wake = new Wake();
  private readonly ahead: ReadAhead;
  private window: Window;
  private readonly sentAt = new Map<Seq, number>();
  private takenAt = Number.NEGATIVE_INFINITY;
  /** Of the batches that are in the window. */
  private readonly bytes = new Map<Seq, number>();
  private readonly caution: Caution | null;
  private refused: EncodedBatch | undefined;
  private pauseMs = 0;
  private refusal: string | undefined;
  private stopping = false;
  private ended = false;
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
    const { payloadBytesMax, announced } = link.limits;
    const bytesMax = Math.min(options.batchBytesMax, payloadBytesMax);
    const limits = { bytesMax, rowBytesMax: announced ? payloadBytesMax : bytesMax };
    this.window = openWindow(released);
    this.ahead = new ReadAhead(released, limits, caution, options, {
      ready: () => this.wake.notify(),
      failed: (error) => this.end(messageOf(error)),
    });
  }

  /** Everything up to here has been released, whether or not its deletion has been committed yet. */
  get released(): Seq {
    return this.window.released;
  }

  /** Rows up to here have been read for sending. */
  get readUpTo(): Seq {
    return this.ahead.readUpTo;
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
        this.ahead.fill();
        this.sendAhead();
        await this.wake.wait(this.lookAgainMs());
        this.checkDeadline();
      }
    } catch (error) {
      this.end(messageOf(error));
    }
    const why = await this.link.closed;
    return { why: this.refusal ?? why, suspect: this.suspect(), pauseMs: this.pauseMs };
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
    this.ahead.hurry();
    const end = clock.mono() + budgetMs;
    const empty = () => this.batchesInFlight === 0 && this.ahead.isEmpty && this.readUpTo >= spool.tail;
    const late = () => hurry?.aborted === true || clock.mono() >= end;
    while (!empty() && this.over === undefined && !this.stopping && !late()) await sleep(DRAIN_LOOK_MS);
    this.stop();
    await this.link.close();
  }

  private stop(): void {
    this.stopping = true;
    this.ahead.stop();
  }

  private sendAhead(): void {
    while (!this.stopping && this.hasRoom()) {
      const batch = this.ahead.take();
      if (!batch) return;
      this.send(batch);
    }
  }

  private hasRoom(): boolean {
    const { inFlightMax, inFlightRowsMax, inFlightBytesMax } = this.link.limits;
    const careful = this.caution !== null && this.window.released < this.caution.until;
    const { flights } = this.window;
    if (flights.length === 0) return true;
    if (flights.length >= (careful ? 1 : Math.min(this.options.inFlightMax, inFlightMax))) return false;
    if (inFlightRowsMax !== undefined && sum(flights.map(({ rows }) => rows)) >= inFlightRowsMax) return false;
    return inFlightBytesMax === undefined || sum([...this.bytes.values()]) < inFlightBytesMax;
  }

  private send(batch: EncodedBatch): void {
    const { first, last, rows, payload } = batch;
    this.advance({ type: 'sent', first, last, rows });
    if (!payload) {
      this.advance({ type: 'acknowledged', last });
      return;
    }
    this.sentAt.set(last, this.options.clock.mono());
    this.bytes.set(last, payload.length);
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
      this.stop();
      if (verdict.kind === 'refused') this.refused ??= batch;
      else this.hold(verdict);
      this.refusal ??= verdict.cause;
      void this.link.close();
      return;
    }
    this.sentAt.delete(batch.last);
    this.takenAt = this.options.clock.mono();
    this.events.taken(batch);
    this.advance({ type: 'acknowledged', last: batch.last });
    this.wake.notify();
  }

  private hold({ cause, retryAfterMs = 0 }: Extract<Verdict, { kind: 'held' }>): void {
    this.pauseMs = Math.max(this.pauseMs, retryAfterMs);
    this.events.held(cause);
  }

  private advance(event: WindowEvent): void {
    const { window, release } = next(this.window, event);
    this.window = window;
    if (release === null) return;
    assert(release <= this.readUpTo, 'only what was read is released', { release, readUpTo: this.readUpTo });
    for (const last of this.bytes.keys()) if (last <= release) this.bytes.delete(last);
    this.options.spool.acknowledge(release);
    this.events.released(release);
  }

  private lookAgainMs(): number {
    const due = this.ahead.dueInMs();
    const silent = this.silentMs();
    if (silent === undefined) return due;
    const { ackTimeoutMs } = this.options;
    const left = (silent < ackTimeoutMs / 2 ? ackTimeoutMs / 2 : ackTimeoutMs) - silent;
    return Math.min(due, left > 0 ? Math.max(1, left) : ackTimeoutMs / 2);
  }

  private checkDeadline(): void {
    const silent = this.silentMs();
    if (silent === undefined || this.over !== undefined) return;
    const { ackTimeoutMs } = this.options;
    if (silent >= ackTimeoutMs && !this.link.waitingFor) this.end(`no acknowledgement within ${ackTimeoutMs} ms`);
    else if (silent >= ackTimeoutMs / 2)
      this.events.stalled(this.link.waitingFor?.() ?? 'connected, but no acknowledgement comes');
  }

  /**
   * How long the oldest batch in flight has waited for its answer; undefined when nothing is in flight. Where a queue lies
   * behind the peer it only counts since the last answer: a consumer that works off its backlog is not silent.
   */
  private silentMs(): number | undefined {
    const oldest = this.sentAt.values().next().value;
    if (oldest === undefined) return undefined;
    return this.options.clock.mono() - (this.link.waitingFor ? Math.max(oldest, this.takenAt) : oldest);
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
