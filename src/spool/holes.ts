interface Times {
  /** No row is older, and none is missing that came later. */
  readonly bornAt: number;
  readonly aliveAt: number | null;
  readonly now: number;
}

/** What has been seen of a sequence: plain data, to be kept between two runs. */
export interface Seen {
  last: number | null;
  lastAt: number;
  skipped: number;
  /** Between these times rows may be missing. */
  from: number | null;
  to: number | null;
}

export const NOTHING_SEEN: Readonly<Seen> = { last: null, lastAt: 0, skipped: 0, from: null, to: null };

/** Where the sequence jumps rows may be missing; a row that was set aside leaves such a place, too. */
export function pass(seen: Seen, seq: number, at: number): void {
  if (seen.last !== null && seq > seen.last + 1) {
    seen.skipped += seq - seen.last - 1;
    seen.from ??= seen.lastAt;
    seen.to = at;
  }
  seen.last = seq;
  seen.lastAt = at;
}

/** The time in which what is missing came; `missing` null: unknown, up to now. `tail` is the last seq of all, if known. */
export function span(
  seen: Readonly<Seen>,
  missing: number | null,
  tail: number | null,
  { bornAt, aliveAt, now }: Times,
): { from: number; to: number } {
  if (missing === 0) return { from: now, to: now };
  const { last, lastAt, skipped } = seen;
  const atEnd = missing === null || last === null || last < (tail ?? last);
  const behind = last === null || tail === null ? 0 : tail - last;
  const atStart = missing !== null && missing > skipped + behind;
  const from = atStart ? bornAt : (seen.from ?? (missing === null ? aliveAt : null) ?? (lastAt || bornAt));
  return { from: Math.min(from, now), to: atEnd ? now : (seen.to ?? now) };
}
