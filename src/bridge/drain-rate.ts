import type { Clock } from '../lib/clock.js';

/** Long enough to even out batches, short enough that the estimate follows a link that has come back. */
const SPAN_MS = 15_000;
const SAMPLES_MAX = 64;

/** How fast the spool empties, from its depth over the last seconds; what comes in meanwhile is counted against it. */
export class DrainRate {
  private readonly clock: Clock;
  private samples: { readonly at: number; readonly rows: number }[] = [];

  constructor(clock: Clock) {
    this.clock = clock;
  }

  sample(rows: number): void {
    const at = this.clock.mono();
    this.samples.push({ at, rows });
    this.samples = this.samples.filter((sample) => at - sample.at <= SPAN_MS).slice(-SAMPLES_MAX);
  }

  /** Milliseconds until the spool is empty at this rate; 0 when it is, null when it does not shrink. */
  etaMs(rows: number): number | null {
    if (rows === 0) return 0;
    const oldest = this.samples[0];
    const at = this.clock.mono();
    if (!oldest || at === oldest.at || rows >= oldest.rows) return null;
    return Math.round((rows * (at - oldest.at)) / (oldest.rows - rows));
  }
}
