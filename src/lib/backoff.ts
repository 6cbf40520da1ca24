export interface BackoffOptions {
  readonly minMs: number;
  readonly maxMs: number;
  /** Uniform in [0, 1); injected so that tests know the schedule. */
  readonly random?: () => number;
}

/**
 * Exponential backoff with full jitter: attempt n waits a uniform time in [minMs, min(maxMs, minMs · 2ⁿ)]. The spread is
 * what keeps a fleet that lost the same broker from coming back in the same second.
 */
export class Backoff {
  private attempt = 0;
  private readonly options: BackoffOptions;

  constructor(options: BackoffOptions) {
    this.options = options;
  }

  /** The next wait in milliseconds. */
  next(): number {
    const { minMs, maxMs, random = Math.random } = this.options;
    const ceiling = Math.min(maxMs, minMs * 2 ** this.attempt);
    if (ceiling < maxMs) this.attempt++;
    return minMs + random() * Math.max(0, ceiling - minMs);
  }

  /** Call only once the thing has proved itself stable, or a flapping peer is hammered at the minimum. */
  reset(): void {
    this.attempt = 0;
  }
}
