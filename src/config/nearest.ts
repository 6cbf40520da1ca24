/** More edits than this share of a word and the two words only happen to be short. */
const EDITS_SHARE_MAX = 1 / 3;

/** The known word that `word` is most likely a slip of, or undefined when none is near. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const limit = Math.max(1, Math.floor(word.length * EDITS_SHARE_MAX));
  let best: { candidate: string; edits: number } | undefined;
  for (const candidate of known) {
    const edits = editsBetween(word.toLowerCase(), candidate.toLowerCase());
    if (edits <= limit && edits < (best?.edits ?? Number.POSITIVE_INFINITY)) best = { candidate, edits };
  }
  return best?.candidate;
}

/** Insertions, deletions, replacements and swaps of neighbours (optimal string alignment distance). */
function editsBetween(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row[j] = Math.min(last[j]! + 1, row[j - 1]! + 1, replaced);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        row[j] = Math.min(row[j]!, before[j - 2]! + 1);
    }
    before = last;
    last = row;
  }
  return last[b.length]!;
}
