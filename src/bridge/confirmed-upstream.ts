/**
 * Delivery that ends at the consumer. The broker's PUBACK only says that the next batch may go out; a batch is taken when
 * the consumer behind the broker has said, after its own commit, that it holds every seq of it. A broker that acknowledges
 * and then forgets therefore loses nothing: the rows are still in the spool, and go again.
 *
 * A link begins carefully: until the consumer has been heard on it, no more is on its way than the broker's window. Then
 * the limits are the rows and bytes that may have to be sent again.
 */
import type { Clock } from '../lib/clock.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import type { Source } from '../model/row.js';
import type { Ack, AckRange } from '../wire/ack.js';
import { type AckCounts, AckJudge, type Disbelief } from './ack-judge.js';
import { Unconfirmed } from './unconfirmed.js';
import type { BatchAbout, Upstream, UpstreamLimits, UpstreamLink, Verdict } from './upstream.js';

/** A way to a broker on which the consumer's statements come back. */
export interface AckedTransport {
  readonly url: string;
  connect(signal: AbortSignal, onAck: OnAck): Promise<UpstreamLink>;
}
export type OnAck = (bytes: Uint8Array, retained: boolean) => void;

export interface ConfirmedOptions {
  readonly transport: AckedTransport;
  readonly source: Source;
  /** The highest seq of the spool now. */
  readonly tail: number;
  /** Batches that the broker may not have acknowledged. */
  readonly inFlightMax: number;
  /** Rows and bytes that the consumer may not have confirmed. */
  readonly unconfirmedRowsMax: number;
  readonly unconfirmedBytesMax: number;
  /** Without a PUBACK for so long the link ends; without a confirmation for so long the oldest batch goes again. */
  readonly ackTimeoutMs: number;
  /** Of these seqs, those that have left the spool, as a batch that tells the consumer; undefined when all are here. */
  readonly gone: (ranges: readonly AckRange[]) => Promise<Uint8Array | undefined>;
  readonly clock: Clock;
  readonly log: Log;
}

export class ConfirmedUpstream implements Upstream {
  private readonly options: ConfirmedOptions;
  private readonly judge: AckJudge;
  private readonly complaints = new RateLimit();

  constructor(options: ConfirmedOptions) {
    this.options = options;
    this.judge = new AckJudge(options.source, options.tail);
  }

  get url(): string {
    return this.options.transport.url;
  }

  /** Statements of the consumer since the start of the process, by what became of them. */
  get acks(): AckCounts {
    return this.judge.totals;
  }

  async connect(signal: AbortSignal): Promise<UpstreamLink> {
    let link: ConfirmedLink | undefined;
    const onAck: OnAck = (bytes, retained) => {
      const verdict = this.judge.judge(bytes, retained, link?.releasedUpTo ?? 0);
      if (typeof verdict === 'string') this.complain(verdict, bytes);
      else link?.confirm(verdict);
    };
    const inner = await this.options.transport.connect(signal, onAck);
    link = new ConfirmedLink(inner, this.judge, this.options);
    return link;
  }

  private complain(why: Disbelief, bytes: Uint8Array): void {
    if (why === 'older') return;
    const held = this.complaints.pass(why);
    const text = Buffer.from(bytes.subarray(0, 200)).toString();
    if (held !== undefined) this.options.log.warn({ why, text, held }, 'An acknowledgement is not believed');
  }
}

interface Batch extends BatchAbout {
  readonly payload: Uint8Array;
  readonly settle: (verdict: Verdict) => void;
}

class ConfirmedLink implements UpstreamLink {
  readonly closed: Promise<string>;
  private readonly inner: UpstreamLink;
  private readonly judge: AckJudge;
  private readonly options: ConfirmedOptions;
  private readonly windowMax: number;
  private readonly unconfirmed: Unconfirmed<Batch>;
  /** What waits for room in the broker's window. */
  private readonly queue: Batch[] = [];
  /** When what the broker has not acknowledged was sent, oldest first. */
  private readonly sentAt = new Map<object, number>();
  private readonly rejects = new Set<(error: HoldfastError) => void>();
  private heard = false;
  private answering = false;
  /** The consumer has confirmed what this link has sent up to here, without a hole. */
  releasedUpTo = 0;
  private open: Batch[] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(inner: UpstreamLink, judge: AckJudge, options: ConfirmedOptions) {
    this.inner = inner;
    this.judge = judge;
    this.options = options;
    this.windowMax = Math.min(options.inFlightMax, inner.limits.inFlightMax);
    this.unconfirmed = new Unconfirmed(options.ackTimeoutMs);
    this.closed = inner.closed.then((why) => {
      clearTimeout(this.timer);
      const error = new HoldfastError('upstream.lost', why);
      for (const reject of this.rejects) reject(error);
      this.rejects.clear();
      return why;
    });
  }

  get limits(): UpstreamLimits {
    return {
      ...this.inner.limits,
      inFlightMax: this.heard ? Number.POSITIVE_INFINITY : this.windowMax,
      inFlightRowsMax: this.options.unconfirmedRowsMax,
      inFlightBytesMax: this.options.unconfirmedBytesMax,
    };
  }

  get blamed(): boolean {
    return this.inner.blamed === true;
  }

  get forbidden(): boolean {
    return this.inner.forbidden === true;
  }

  waitingFor(): string {
    const [oldest] = this.open;
    return this.sentAt.size > 0
      ? 'connected, but the broker does not acknowledge'
      : `the broker takes batches, but the consumer behind it does not confirm seq ${oldest?.first ?? '?'}`;
  }

  send(payload: Uint8Array, { first, last, rows }: BatchAbout): Promise<Verdict> {
    return new Promise((resolve, reject) => {
      this.rejects.add(reject);
      const batch: Batch = {
        first,
        last,
        rows,
        payload,
        settle: (verdict) => {
          this.rejects.delete(reject);
          this.open = this.open.filter((other) => other !== batch);
          this.releasedUpTo = Math.max(this.releasedUpTo, (this.open[0]?.first ?? last + 1) - 1);
          resolve(verdict);
        },
      };
      this.open.push(batch);
      this.queue.push(batch);
      this.pump();
    });
  }

  /** Takes a statement that is believed. */
  confirm(ack: Ack): void {
    this.heard = true;
    const { refused } = ack;
    const bad = refused && this.unconfirmed.take(refused.from, refused.to);
    for (const batch of this.unconfirmed.confirm(ack, this.options.clock.mono())) batch.settle({ kind: 'taken' });
    bad?.settle({ kind: 'refused', cause: `the consumer cannot take the batch: ${refused?.reason}` });
    if (ack.ask) void this.answer(ack.missing);
    this.schedule();
  }

  close(): Promise<void> {
    return this.inner.close();
  }

  destroy(reason: string): void {
    this.inner.destroy(reason);
  }

  private pump(): void {
    while (this.sentAt.size < this.windowMax) {
      const batch = this.queue.shift();
      if (!batch) break;
      this.judge.sent(batch.last);
      this.unconfirmed.add(batch, this.options.clock.mono());
      this.transmit(batch);
    }
    this.schedule();
  }

  private transmit(batch: Batch): void {
    const sending = {};
    this.sentAt.set(sending, this.options.clock.mono());
    this.inner.send(batch.payload, batch).then(
      (verdict) => {
        this.sentAt.delete(sending);
        if (verdict.kind !== 'taken') {
          this.unconfirmed.take(batch.first, batch.last);
          batch.settle(verdict);
        }
        this.pump();
      },
      // The link has closed, which settles everything.
      () => {},
    );
  }

  private schedule(): void {
    clearTimeout(this.timer);
    const now = this.options.clock.mono();
    const dueAt = Math.min(
      this.pubackDueAt(),
      this.sentAt.size < this.windowMax ? this.unconfirmed.nextDueAt : Infinity,
    );
    if (Number.isFinite(dueAt)) this.timer = setTimeout(() => this.look(), Math.max(1, Math.ceil(dueAt - now)));
  }

  private look(): void {
    const { clock, ackTimeoutMs, log } = this.options;
    const now = clock.mono();
    if (now >= this.pubackDueAt()) {
      this.destroy(`no acknowledgement within ${ackTimeoutMs} ms`);
      return;
    }
    for (const batch of this.unconfirmed.due(now, this.windowMax - this.sentAt.size)) {
      log.debug({ first: batch.first, last: batch.last }, 'A batch is not confirmed and goes again');
      this.transmit(batch);
    }
    this.schedule();
  }

  private pubackDueAt(): number {
    const oldest = this.sentAt.values().next().value;
    return oldest === undefined ? Number.POSITIVE_INFINITY : oldest + this.options.ackTimeoutMs;
  }

  /** One answer at a time; who has not got one asks again. */
  private async answer(missing: readonly AckRange[]): Promise<void> {
    const [first, last] = [missing[0], missing.at(-1)];
    if (this.answering || !first || !last) return;
    this.answering = true;
    try {
      const payload = await this.options.gone(missing);
      if (payload) await this.inner.send(payload, { first: first.from, last: last.to, rows: 0 });
    } catch (error) {
      this.options.log.debug({ cause: messageOf(error) }, 'A question about missing rows is not answered');
    } finally {
      this.answering = false;
    }
  }
}
