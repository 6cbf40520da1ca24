/** How fast the spool would fill if nothing were acknowledged any more: what an operator wants to know before an outage. */
import type { Clock } from '../lib/clock.js';

/** Long enough to even out bursts of publishers and slow poll cycles. */
const SPAN_MS = 120_000;
/** Before this no rate is worth showing. */
const SPAN_MS_MIN = 2_000;

export class Forecast {
  private readonly clock: Clock;
  private samples: { readonly at: number; readonly bytesIn: number }[] = [];

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** `bytesIn` is what has come in since the start; about once a second. */
  sample(bytesIn: number): void {
    const at = this.clock.mono();
    this.samples.push({ at, bytesIn });
    while ((this.samples[0]?.at ?? at) < at - SPAN_MS) this.samples.shift();
  }

  /** Seconds until `roomBytes` are used up at the rate of the last two minutes; null while nothing comes in. */
  secondsUntilFull(roomBytes: number, bytesIn: number): number | null {
    const oldest = this.samples[0];
    const spanMs = oldest ? this.clock.mono() - oldest.at : 0;
    if (!oldest || spanMs < SPAN_MS_MIN || bytesIn <= oldest.bytesIn) return null;
    return Math.max(0, (roomBytes * spanMs) / (bytesIn - oldest.bytesIn) / 1000);
  }
}
