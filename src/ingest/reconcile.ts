import type { Millis } from '../model/ids.js';
import type { LedgerEntry } from './historian.js';
import { overlap, type SeqRange } from './ledger.js';
import type { LostRecord, Records, TalliedHour, Window } from './records.js';
import { HOUR_MS, hourOf } from './rollups.js';

/**
 * `complete`: every reading that the gateway counted is here, checksum included. `missing` and `extra`: fewer or more are
 * here. `differs`: as many, but not the same ones. `uncounted`: readings are here and no tally of them has arrived yet.
 */
export type Verdict = 'complete' | 'missing' | 'extra' | 'differs' | 'uncounted';

export interface HourResult extends TalliedHour {
  readonly hour: Millis;
  readonly verdict: Verdict;
  /** Readings. */
  readonly missing: number;
  readonly extra: number;
  /** Where what is missing may be: seqs that have not arrived, among those that the tally spans. */
  readonly notArrived: readonly SeqRange[];
  /** Seqs that have not arrived and are later than the counts: they may hold more of this hour, or newer counts of it. */
  readonly unknown: readonly SeqRange[];
  /** Seqs that the gateway gave up on, and why. */
  readonly givenUp: readonly { readonly from: number; readonly to: number; readonly reason: string }[];
}

/**
 * Holds the store against the gateways' own counts, hour by hour; the window is widened to whole hours. A late tally makes
 * no false alarm: each says up to which seq it has counted, and only what is here up to there is compared. A hole before
 * that seq cannot hold anything of a complete hour, because it would have been counted.
 */
export async function* reconcile(records: Records, { from, to, asset }: Window): AsyncGenerator<HourResult> {
  for (let hour = hourOf(from); hour < to; hour = (hour + HOUR_MS) as Millis) {
    const rows = await records.tallied(hour, asset);
    if (rows.length === 0) continue;
    const [ledger, lost] = [await records.ledger(), await records.lost()];
    for (const row of rows) yield judge(hour, row, ledger, lost);
  }
}

function judge(
  hour: Millis,
  row: TalliedHour,
  ledger: readonly LedgerEntry[],
  lost: readonly LostRecord[],
): HourResult {
  const { expected, found, same, first, last } = row;
  const missing = Math.max(0, expected - found);
  const extra = Math.max(0, found - expected);
  const verdict = verdictOf(expected, found, same);
  const doubtful = verdict === 'missing' || verdict === 'differs';
  const span = doubtful && first !== null && last !== null ? { from: first, to: last } : undefined;
  const isOurs = (other: { gateway: string; epoch: string }) =>
    other.gateway === row.gateway && other.epoch === row.epoch;
  const holes = ledger.filter(isOurs).flatMap((entry) => entry.holes);
  return {
    ...row,
    hour,
    verdict,
    missing,
    extra,
    notArrived: span ? overlap(holes, span) : [],
    unknown: holes.filter(({ to }) => to > (row.upTo ?? 0)),
    givenUp: span
      ? lost
          .filter(isOurs)
          .flatMap((range) => overlap([range], span).map((part) => ({ ...part, reason: range.reason })))
      : [],
  };
}

function verdictOf(expected: number, found: number, same: boolean): Verdict {
  if (expected === 0) return 'uncounted';
  if (found < expected) return 'missing';
  if (found > expected) return 'extra';
  return same ? 'complete' : 'differs';
}
