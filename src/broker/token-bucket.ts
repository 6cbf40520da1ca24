/** A rate with room for bursts: `perS` tokens come in every second, up to `burstS` seconds' worth. Infinity: no limit. */
export class TokenBucket {
  private readonly perS: number;
  private readonly size: number;
  private tokens: number;
  private at = Number.NEGATIVE_INFINITY;

  constructor(perS: number, burstS: number) {
    this.perS = perS;
    this.size = perS * burstS;
    this.tokens = this.size;
  }

  /** `now` in monotonic ms. False, and nothing is taken, when there are too few. */
  take(tokens: number, now: number): boolean {
    this.refill(now);
    if (this.tokens < tokens) return false;
    this.tokens -= tokens;
    return true;
  }

  /** Takes in any case, also what is not there yet, and returns the ms until nothing is owed. */
  spend(tokens: number, now: number): number {
    this.refill(now);
    this.tokens -= tokens;
    return this.tokens >= 0 ? 0 : (-this.tokens / this.perS) * 1000;
  }

  isFull(now: number): boolean {
    this.refill(now);
    return this.tokens >= this.size;
  }

  private refill(now: number): void {
    if (this.perS === Number.POSITIVE_INFINITY) return;
    const came = ((now - this.at) / 1000) * this.perS;
    this.tokens = Math.min(this.size, this.tokens + came);
    this.at = now;
  }
}
