/** Enough answers for a meaningful 99th percentile, few enough to follow a change within minutes and to sort in no time. */
const ANSWERS_KEPT = 256;

/** Round-trip times of the last answers. */
export class Latency {
  private readonly ring = new Float64Array(ANSWERS_KEPT);
  private count = 0;

  add(rttMs: number): void {
    this.ring[this.count++ % ANSWERS_KEPT] = rttMs;
  }

  /** Milliseconds to a hundredth; null before the first answer. */
  percentiles(): { p50: number; p99: number } | null {
    if (this.count === 0) return null;
    const sorted = this.ring.slice(0, Math.min(this.count, ANSWERS_KEPT)).sort();
    const at = (share: number) => Math.round((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) * 100) / 100;
    return { p50: at(0.5), p99: at(0.99) };
  }
}
