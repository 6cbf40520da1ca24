/** How often values fell into each of a few fixed ranges: what a scraper turns into quantiles over any time and any number of processes. */
export class Histogram {
  /** Upper ends of the ranges, rising; the last range has none. */
  readonly bounds: readonly number[];
  /** Values in each range, one more than there are bounds. */
  readonly counts: number[];
  sum = 0;
  count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    let range = 0;
    while (range < this.bounds.length && value > (this.bounds[range] as number)) range++;
    this.counts[range] = (this.counts[range] as number) + 1;
    this.sum += value;
    this.count++;
  }
}

/** From what an NVMe commit takes to what an operator calls an outage, in seconds. */
export const SECONDS_BOUNDS: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60,
];
