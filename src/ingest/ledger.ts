/** Which seqs of an epoch have arrived, as ranges: exact, and independent of every clock. Both ends are in the range. */
export interface SeqRange {
  readonly from: number;
  readonly to: number;
}

/** The runs of consecutive seqs in rows that rise by seq. */
export function runsOf(rows: readonly { readonly seq: number }[]): SeqRange[] {
  const runs: { from: number; to: number }[] = [];
  for (const { seq } of rows) {
    const run = runs.at(-1);
    if (run && run.to + 1 === seq) run.to = seq;
    else runs.push({ from: seq, to: seq });
  }
  return runs;
}

/** The same seqs in the fewest ranges, rising. */
export function mergeRanges(ranges: readonly SeqRange[]): SeqRange[] {
  const merged: { from: number; to: number }[] = [];
  for (const { from, to } of [...ranges].sort((a, b) => a.from - b.from)) {
    const before = merged.at(-1);
    if (before && from <= before.to + 1) before.to = Math.max(before.to, to);
    else merged.push({ from, to });
  }
  return merged;
}

/** What is in none of the ranges, from the epoch's first seq up to the last one seen. */
export function holesIn(ranges: readonly SeqRange[]): SeqRange[] {
  const holes: SeqRange[] = [];
  let next = 1;
  for (const { from, to } of mergeRanges(ranges)) {
    if (from > next) holes.push({ from: next, to: from - 1 });
    next = to + 1;
  }
  return holes;
}

/** What of the ranges is in `span`. */
export function overlap(ranges: readonly SeqRange[], span: SeqRange): SeqRange[] {
  return ranges
    .filter(({ from, to }) => from <= span.to && to >= span.from)
    .map(({ from, to }) => ({ from: Math.max(from, span.from), to: Math.min(to, span.to) }));
}

/** What of the ranges is in none of the others. */
export function without(ranges: readonly SeqRange[], others: readonly SeqRange[]): SeqRange[] {
  const known = mergeRanges(others);
  return mergeRanges(ranges).flatMap((range) => {
    const rest: SeqRange[] = [];
    let next = range.from;
    for (const { from, to } of overlap(known, range)) {
      if (from > next) rest.push({ from: next, to: from - 1 });
      next = to + 1;
    }
    return next <= range.to ? [...rest, { from: next, to: range.to }] : rest;
  });
}
