interface Times {
  /** No row is older, and none is missing that came later. */
  readonly bornAt: number;
  readonly aliveAt: number | null;
  readonly now: number;
}

/** Where the sequence jumps rows may be missing; a row that was set aside leaves such a place, too. */
export class Holes {
  private last: number | undefined;
  private lastAt = 0;
  private skipped = 0;
  private from: number | undefined;
  private to: number | undefined;

  pass(seq: number, at: number): void {
    if (this.last !== undefined && seq > this.last + 1) {
      this.skipped += seq - this.last - 1;
      this.from ??= this.lastAt;
      this.to = at;
    }
    this.run(seq, at);
  }

  /** Every row up to this one is there. */
  run(seq: number, at: number): void {
    this.last = seq;
    this.lastAt = at;
  }

  /** The time in which what is missing came; `missing` null: unknown, up to now. */
  span(
    missing: number | null,
    tail: number | undefined,
    { bornAt, aliveAt, now }: Times,
  ): { from: number; to: number } {
    if (missing === 0) return { from: now, to: now };
    const atEnd = missing === null || this.last === undefined || this.last < (tail ?? this.last);
    const behind = this.last === undefined || tail === undefined ? 0 : tail - this.last;
    const atStart = missing !== null && missing > this.skipped + behind;
    const from = atStart ? bornAt : (this.from ?? (missing === null ? aliveAt : null) ?? (this.lastAt || bornAt));
    return { from: Math.min(from, now), to: atEnd ? now : (this.to ?? now) };
  }
}
