/**
 * Carries the spool to the cloud for as long as the gateway runs: connects, lets a `Carrier` use the link until it ends,
 * waits with growing, jittered pauses, and connects again, for ever. There is one way of working, with an empty spool and
 * with five million rows in it, and no row leaves the spool before the cloud has taken it.
 */
import { Backoff, type BackoffOptions } from '../lib/backoff.js';
import { sleep, within } from '../lib/clock.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import type { Millis, Seq } from '../model/ids.js';
import type { SpoolRow } from '../model/row.js';
import type { UpstreamStatus } from '../model/status.js';
import { Carrier, type CarrierEvents, type CarrierOptions } from './carrier.js';
import { DrainRate } from './drain-rate.js';
import { accused, cautionOf, nextSuspicion, type Suspicion, type SuspicionEvent } from './suspicion.js';
import type { Upstream, UpstreamLink } from './upstream.js';

/** A link that has lasted this long and brought an acknowledgement was a good one: the next wait starts small again. */
const STABLE_LINK_MS = 10_000;
/** A cloud that asks for a longer pause is tried all the same: nobody might look at it before the spool is full. */
const PAUSE_MS_MAX = 10 * 60_000;
/** An accused row is compared with rows 1, 2, 4 … 512 places behind it. */
const CONFRONTATIONS = 10;
const CONFRONT_BYTES_MAX = 4 * 1024 * 1024;

export interface ReplayerOptions extends CarrierOptions {
  readonly upstream: Upstream;
  readonly backoff: BackoffOptions;
}

export class Replayer {
  private readonly options: ReplayerOptions;
  private readonly stopping = new AbortController();
  private readonly rate: DrainRate;
  private readonly totals = { rowsSent: 0, rowsAcknowledged: 0, bytesSent: 0, connects: 0 };
  private state: UpstreamStatus['state'] = 'connecting';
  private since: Millis;
  private cause: string | null = null;
  private lastAckAt: Millis | null = null;
  /** The deletion of what was released last may not have been committed when the next link comes. */
  private released = 0 as Seq;
  private suspicion: Suspicion | null = null;
  private confronted = 0;
  private carrier: Carrier | undefined;
  private running: Promise<void> | undefined;

  constructor(options: ReplayerOptions) {
    this.options = options;
    this.since = options.clock.now();
    this.rate = new DrainRate(options.clock);
  }

  start(): void {
    this.running ??= this.run();
  }

  /**
   * Sends what is left for up to `budgetMs`, or until `hurry` aborts, if the link is up, then ends it; what was not
   * acknowledged stays in the spool. Call it when nothing new comes in any more. Idempotent.
   */
  async stop(budgetMs: number, hurry?: AbortSignal): Promise<void> {
    this.stopping.abort();
    await this.carrier?.drain(budgetMs, hurry);
    await this.running;
    this.become('stopped', null);
  }

  /** `rows` is the spool's depth now, which the drain's speed is estimated from. */
  status(rows: number): UpstreamStatus {
    const { state, since, cause, lastAckAt, totals } = this;
    const { url, acks } = this.options.upstream;
    this.rate.sample(rows);
    return {
      state,
      since,
      cause,
      url,
      batchesInFlight: this.carrier?.batchesInFlight ?? 0,
      ...totals,
      lastAckAt,
      ...(acks && { acks }),
      drainEtaMs: this.rate.etaMs(rows),
    };
  }

  /** Rows up to here are on their way at this moment. */
  get readUpTo(): Seq {
    return this.carrier?.readUpTo ?? (0 as Seq);
  }

  private async run(): Promise<void> {
    const { signal } = this.stopping;
    const backoff = new Backoff(this.options.backoff);
    while (!signal.aborted) {
      const startedAt = this.options.clock.mono();
      const before = this.totals.rowsAcknowledged;
      const pauseMs = await this.connectAndCarry();
      const good = this.totals.rowsAcknowledged > before && this.options.clock.mono() - startedAt >= STABLE_LINK_MS;
      if (good) backoff.reset();
      await sleep(Math.max(backoff.next(), Math.min(pauseMs, PAUSE_MS_MAX)), signal);
    }
  }

  /** Resolves with how long the cloud wants to be left alone. */
  private async connectAndCarry(): Promise<number> {
    const { upstream, log } = this.options;
    const { signal } = this.stopping;
    const { url } = upstream;
    try {
      if (this.state !== 'held') this.become('connecting', this.cause);
      const link = await upstream.connect(signal);
      this.totals.connects++;
      log.info({ url, ...link.limits }, 'The upstream is connected');
      if (this.state !== 'held') this.become('online', null);
      if (!(await this.confront(link))) return 0;
      const carrier = new Carrier(link, this.released, cautionOf(this.suspicion), this.options, this.events());
      this.carrier = carrier;
      const { why, suspect, pauseMs } = await carrier.run();
      this.released = carrier.released;
      if (signal.aborted) return 0;
      if (suspect) {
        const type = suspect.named ? 'refused' : 'dropped';
        this.suspect({ type, batch: suspect, alone: suspect.alone, cause: why });
      }
      if (link.forbidden) this.become('held', why);
      log.warn({ url, cause: why }, 'The upstream link has ended');
      if (this.state !== 'held') this.become('backoff', why);
      return pauseMs;
    } catch (error) {
      if (signal.aborted) return 0;
      const cause = messageOf(error);
      if (cause !== this.cause) log.warn({ url, cause }, 'The upstream cannot be reached');
      this.become(error instanceof HoldfastError && error.code === 'upstream.refused' ? 'held' : 'backoff', cause);
      return error instanceof HoldfastError ? Number(error.values.retryAfterMs ?? 0) : 0;
    } finally {
      this.carrier = undefined;
    }
  }

  /**
   * One row ends every link. Before it is set aside another one is sent alone, and then the accused once more: only if the
   * cloud takes the one and not the other, on the same link, it is the row, and neither the line nor a cloud that takes
   * nothing. Returns whether the link can still be used.
   */
  private async confront(link: UpstreamLink): Promise<boolean> {
    const { spool, log } = this.options;
    const seq = accused(this.suspicion);
    const cause = this.suspicion?.cause ?? '';
    if (seq === null) return true;
    const [row] = await spool.peek((seq - 1) as Seq, 1, CONFRONT_BYTES_MAX);
    // Its neighbour may be as bad; so each attempt takes one twice as far away.
    const others = await spool.peek(seq, 2 ** (this.confronted++ % CONFRONTATIONS), CONFRONT_BYTES_MAX);
    const outcome = await this.trySending(link, others.at(-1));
    if (outcome !== null) {
      this.suspect({ type: 'cleared' });
      this.become('held', `the upstream does not take seq ${seq} (${cause}), and no other row either: ${outcome}`);
    } else {
      if (row?.seq === seq && (await this.trySending(link, row)) !== null) {
        log.error({ seq, cause }, 'The upstream takes every message but this one; it is set aside');
        await spool.bury(seq, `refused: ${cause}`);
      }
      this.suspicion = null;
      this.confronted = 0;
    }
    void link.close();
    await link.closed;
    return false;
  }

  /** Null when it was taken, otherwise the reason why not. */
  private async trySending(link: UpstreamLink, row: SpoolRow | undefined): Promise<string | null> {
    const { batcher, ackTimeoutMs } = this.options;
    if (!row) return 'there is none to compare it with';
    try {
      const bytesMax = link.limits.payloadBytesMax;
      const [batch] = await batcher.encode([row], { bytesMax, rowBytesMax: bytesMax });
      if (!batch?.payload) return 'the next one is too large';
      const answer = await within(link.send(batch.payload, batch), ackTimeoutMs, 'The acknowledgement');
      return answer.kind === 'taken' ? null : answer.cause;
    } catch (error) {
      return messageOf(error);
    }
  }

  private suspect(event: SuspicionEvent): void {
    this.suspicion = nextSuspicion(this.suspicion, event);
  }

  private events(): CarrierEvents {
    const { clock, log } = this.options;
    return {
      sent: ({ rows, payload }) => {
        this.totals.rowsSent += rows;
        this.totals.bytesSent += payload?.length ?? 0;
      },
      taken: ({ rows }) => {
        this.totals.rowsAcknowledged += rows;
        this.lastAckAt = clock.now();
        this.become('online', null);
      },
      held: (cause) => {
        if (cause !== this.cause) log.error({ cause }, 'The upstream does not take batches; everything is kept');
        this.become('held', cause);
      },
      released: (upTo) => this.suspect({ type: 'released', upTo }),
      stalled: (cause) => this.become('stalled', cause),
    };
  }

  private become(state: UpstreamStatus['state'], cause: string | null): void {
    if (state !== this.state) this.since = this.options.clock.now();
    this.state = state;
    this.cause = cause;
  }
}
