/** Enough answers for a meaningful 99th percentile, few enough to follow a change within minutes and to sort in no time. */
const ANSWERS_KEPT = 256;

/** The status is asked for in every cycle, and sorting for it would cost more than the reading. */
const FRESH_ANSWERS = 32;

/** Round-trip times of the last answers. */
export class Latency {
  private readonly ring = new Float64Array(ANSWERS_KEPT);
  private count = 0;
  private known: { readonly count: number; readonly value: { p50: number; p99: number } } | undefined;

  add(rttMs: number): void {
    this.ring[this.count++ % ANSWERS_KEPT] = rttMs;
  }

  /** Milliseconds to a hundredth, as of a few answers ago at most; null before the first answer. */
  percentiles(): { p50: number; p99: number } | null {
    if (this.count === 0) return null;
    if (this.known && this.count - this.known.count < FRESH_ANSWERS) return this.known.value;
    const sorted = this.ring.slice(0, Math.min(this.count, ANSWERS_KEPT)).sort();
    const at = (share: number) => Math.round((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) * 100) / 100;
    const value = { p50: at(0.5), p99: at(0.99) };
    if (this.count >= FRESH_ANSWERS) this.known = { count: this.count, value };
    return value;
  }
}
