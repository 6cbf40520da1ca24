/**
 * Batches that a broker has been given and the consumer behind it has not confirmed, and when each is to be sent again; no
 * timers, no sockets. A batch may be lost behind the broker's back, it may lie in the queue of a consumer that is away, or
 * its confirmation may have got lost, and nothing tells these apart. So:
 *
 * - A batch that the consumer lists as missing, though it has got later ones, goes again soon.
 * - One that was sent before another that has been confirmed goes again soon, once nothing more is confirmed by itself.
 * - Of a silent consumer only the oldest batch goes again, ever more rarely: it makes a consumer that is back say what it
 *   has, and fills no queue of one that is not.
 */
import { type Ack, covers, touches } from '../wire/ack.js';

export interface SentBatch {
  readonly first: number;
  readonly last: number;
}

/** Workers of one subscription overtake each other by less than this. */
const RESEND_AFTER_MS = 1_000;
/**
 * Each attempt waits twice as long as the one before, up to four seconds: of a shared subscription some brokers keep a part for
 * a worker that is away, so the same batch may meet it several times.
 */
const RESEND_DOUBLINGS_MAX = 2;
/** A consumer that is away for a night leaves a hundred copies of one batch in its queue, not of them all. */
const PROBE_EVERY_MS_MAX = 5 * 60_000;

interface Flight<T> {
  readonly batch: T;
  sends: number;
  /** Place among all sendings. */
  order: number;
  sentAt: number;
  /** Since when the consumer has listed it as missing. */
  listedAt: number | undefined;
}

export class Unconfirmed<T extends SentBatch> {
  private readonly silenceMs: number;
  private readonly flights: Flight<T>[] = [];
  private order = 0;
  /** The latest sending that has been confirmed. */
  private confirmedOrder = 0;
  private progressAt = Number.NEGATIVE_INFINITY;
  private probes = 0;

  /** Silence of `silenceMs` makes the oldest batch go again. */
  constructor(silenceMs: number) {
    this.silenceMs = silenceMs;
  }

  /** Times are of a clock that never jumps. */
  add(batch: T, now: number): void {
    this.flights.push({ batch, sends: 1, order: ++this.order, sentAt: now, listedAt: undefined });
  }

  /** Takes out what the statement confirms. */
  confirm(ack: Ack, now: number): T[] {
    const confirmed: Flight<T>[] = [];
    for (const flight of [...this.flights]) {
      const range = { from: flight.batch.first, to: flight.batch.last };
      if (covers(ack, range)) confirmed.push(flight);
      else if (ack.missing.some((hole) => touches(hole, range))) flight.listedAt ??= now;
    }
    for (const flight of confirmed) this.drop(flight);
    if (confirmed.length > 0) {
      this.progressAt = now;
      this.probes = 0;
      this.confirmedOrder = Math.max(this.confirmedOrder, ...confirmed.map(({ order }) => order));
    }
    return confirmed.map(({ batch }) => batch);
  }

  /** Takes out the batch with exactly these seqs, if there is one: an older statement may be about a larger one. */
  take(from: number, to: number): T | undefined {
    const flight = this.flights.find(({ batch }) => batch.first === from && batch.last === to);
    if (flight) this.drop(flight);
    return flight?.batch;
  }

  /** What is to be sent again now, at most `max` of it; it counts as sent. */
  due(now: number, max: number): T[] {
    const due = this.flights.filter((flight) => this.dueAt(flight) <= now).slice(0, Math.max(0, max));
    for (const flight of due) {
      if (this.isProbe(flight)) this.probes++;
      flight.sends++;
      flight.order = ++this.order;
      flight.sentAt = now;
      flight.listedAt = undefined;
    }
    return due.map(({ batch }) => batch);
  }

  /** Infinity when nothing is unconfirmed. */
  get nextDueAt(): number {
    return this.flights.reduce((next, flight) => Math.min(next, this.dueAt(flight)), Number.POSITIVE_INFINITY);
  }

  private dueAt(flight: Flight<T>): number {
    const { sentAt, listedAt, sends } = flight;
    const waitMs = RESEND_AFTER_MS * 2 ** Math.min(sends - 1, RESEND_DOUBLINGS_MAX);
    if (listedAt !== undefined) return Math.max(sentAt, listedAt) + waitMs;
    if (this.isPassed(flight)) return Math.max(sentAt, this.progressAt) + waitMs;
    if (!this.isProbe(flight)) return Number.POSITIVE_INFINITY;
    return Math.max(sentAt, this.progressAt) + Math.min(PROBE_EVERY_MS_MAX, this.silenceMs * 2 ** this.probes);
  }

  private isPassed({ order }: Flight<T>): boolean {
    return order < this.confirmedOrder;
  }

  private isProbe(flight: Flight<T>): boolean {
    return flight === this.flights[0] && flight.listedAt === undefined && !this.isPassed(flight);
  }

  private drop(flight: Flight<T>): void {
    this.flights.splice(this.flights.indexOf(flight), 1);
  }
}
