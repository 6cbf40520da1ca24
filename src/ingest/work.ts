import type { Clock } from '../lib/clock.js';
import { Histogram, SECONDS_BOUNDS } from '../lib/histogram.js';
import type { Outcome } from './historian.js';

/** What this worker itself has done since it started; the historian's totals are those of all workers and all times. */
export interface WorkStatus extends Outcome {
  readonly batches: number;
  readonly rows: number;
  readonly bytes: number;
  /** Batches that could not be read and were kept aside. */
  readonly deadBatches: number;
  /** Attempts that failed because the store could not take the batch; it comes again. */
  readonly failures: number;
  /** Over the last seconds. */
  readonly rowsPerSecond: number;
  /** Batches that have arrived and are not stored yet. */
  readonly batchesInHand: number;
}

/** Long enough for a figure that can be read, short enough to show that a worker has come to a stop. */
const RATE_SPAN_MS = 10_000;
const RATE_SAMPLE_MS = 500;

export class Work {
  /** From the arrival of a batch until it was durable, in seconds. */
  readonly storeDuration = new Histogram(SECONDS_BOUNDS);
  private readonly clock: Clock;
  private readonly counts = { stored: 0, duplicates: 0, conflicts: 0, gaps: 0, quarantined: 0, opaque: 0 };
  private readonly own = { batches: 0, rows: 0, bytes: 0, deadBatches: 0, failures: 0 };
  private batchesInHand = 0;
  private samples: { readonly at: number; readonly rows: number }[] = [];

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Call it when a batch has arrived; the answer is called when it is settled, one way or the other. */
  begin(bytes: number): (settled: boolean) => void {
    const since = this.clock.mono();
    this.batchesInHand++;
    return (settled) => {
      this.batchesInHand--;
      if (!settled) {
        this.own.failures++;
        return;
      }
      this.own.batches++;
      this.own.bytes += bytes;
      this.storeDuration.observe((this.clock.mono() - since) / 1000);
    };
  }

  stored(outcome: Outcome, rows: number): void {
    for (const key of Object.keys(this.counts) as (keyof Outcome)[]) this.counts[key] += outcome[key];
    this.own.rows += rows;
    const at = this.clock.mono();
    if (at - (this.samples.at(-1)?.at ?? Number.NEGATIVE_INFINITY) < RATE_SAMPLE_MS) return;
    this.samples.push({ at, rows: this.own.rows });
    this.forget(at);
  }

  buried(): void {
    this.own.deadBatches++;
  }

  status(): WorkStatus {
    const at = this.clock.mono();
    this.forget(at);
    const oldest = this.samples[0];
    const spanMs = oldest ? at - oldest.at : 0;
    const rowsPerSecond = oldest && spanMs > 0 ? Math.round(((this.own.rows - oldest.rows) / spanMs) * 1000) : 0;
    return { ...this.counts, ...this.own, rowsPerSecond, batchesInHand: this.batchesInHand };
  }

  private forget(at: number): void {
    while ((this.samples[0]?.at ?? at) < at - RATE_SPAN_MS) this.samples.shift();
  }
}
