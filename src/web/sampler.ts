import { type Clock, systemClock, within } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import { type Log, RateLimit, silentLog } from '../lib/log.js';
import type { GatewayStatus } from '../model/status.js';
import type { Sample } from './history.js';

/** A status that takes longer than this is reported as missing rather than waited for. */
export const STATUS_WAIT_MS = 5_000;

export interface SamplerOptions {
  readonly status: () => Promise<GatewayStatus>;
  readonly everyMs: number;
  readonly onSample: (status: GatewayStatus, sample: Sample) => void;
  readonly clock?: Clock;
  readonly log?: Log;
}

/**
 * Takes the gateway's status at a fixed pace, whether or not somebody watches, and makes rates of what changed. A status
 * that fails or hangs leaves out samples; it neither piles up nor stops the pace.
 */
export class Sampler {
  private readonly options: SamplerOptions;
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly complaints = new RateLimit();
  private before: { readonly status: GatewayStatus; readonly atMs: number } | undefined;
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;
  private closed = false;

  constructor(options: SamplerOptions) {
    this.options = options;
    this.clock = options.clock ?? systemClock;
    this.log = options.log ?? silentLog;
  }

  start(): void {
    this.timer = setInterval(() => this.tick(), this.options.everyMs);
    this.tick();
  }

  /** Resolves when no status is being taken any more, so that what it reads may be closed next. Idempotent. */
  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    await this.running;
  }

  private tick(): void {
    this.running ??= this.take().finally(() => {
      this.running = undefined;
    });
  }

  private async take(): Promise<void> {
    try {
      const status = await within(this.options.status(), STATUS_WAIT_MS, 'The status');
      if (this.closed) return;
      const atMs = this.clock.mono();
      const sample = sampleOf(status, this.before?.status, atMs - (this.before?.atMs ?? atMs));
      this.before = { status, atMs };
      this.options.onSample(status, sample);
    } catch (error) {
      const held = this.complaints.pass('status');
      if (held !== undefined) this.log.warn({ error: messageOf(error), held }, 'The status could not be taken');
    }
  }
}

/** The sample of `status`, with rates over the `elapsedMs` since `before`; NaN without one of the same spool file. */
export function sampleOf(status: GatewayStatus, before: GatewayStatus | undefined, elapsedMs: number): Sample {
  const { spool, upstream, now } = status;
  const comparable = before?.spool.epoch === spool.epoch && elapsedMs > 0;
  const perS = (total: number, was: number | undefined) =>
    comparable && was !== undefined ? Math.max(0, total - was) / (elapsedMs / 1_000) : Number.NaN;
  return {
    t: now,
    rows: spool.rows,
    bytes: spool.bytes,
    oldestAgeMs: spool.oldestAgeMs,
    receivedPerS: perS(spool.received, before?.spool.received),
    acknowledgedPerS: perS(spool.acknowledged, before?.spool.acknowledged),
    upstream: upstream.state,
  };
}
