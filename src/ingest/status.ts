import { version } from '../lib/version.js';
import type { Millis } from '../model/ids.js';
import type { Historian, LedgerEntry, Totals } from './historian.js';
import type { WatchStatus } from './watch.js';
import type { WorkStatus } from './work.js';

export interface IngestStatus extends Totals {
  readonly version: string;
  readonly now: Millis;
  readonly startedAt: Millis;
  readonly connected: boolean;
  /** Why there is no connection, why nothing can be stored, or what the store warns of. */
  readonly problem: string | null;
  readonly storeProblem: string | null;
  /** Seqs that are neither here nor given up, and the ranges they form. */
  readonly missing: number;
  readonly holes: number;
  /** Seqs that gateways gave up on. */
  readonly lost: number;
  readonly lastBatchAt: Millis | null;
  /** Age of the newest reading by its device's clock. */
  readonly freshnessMs: number | null;
  /** The same per gateway, in no order. */
  readonly ages: readonly number[];
  /** This process alone; the totals are those of all workers. */
  readonly worker: WorkStatus;
  readonly watch: WatchStatus;
  readonly ledger: readonly LedgerEntry[];
}

export interface StatusParts {
  readonly historian: Historian;
  readonly now: Millis;
  readonly startedAt: Millis;
  readonly connected: boolean;
  readonly linkProblem: string | null;
  readonly storeProblem: string | null;
  readonly worker: WorkStatus;
  readonly watch: WatchStatus;
}

/** One snapshot of everything. */
export function ingestStatus({ historian, linkProblem, ...rest }: StatusParts): IngestStatus {
  const ledger = historian.ledger();
  const holes = ledger.flatMap((entry) => entry.holes);
  const lastBatchAt = ledger.reduce((last, entry) => Math.max(last, entry.lastBatchAt), 0);
  const newest = newestByGateway(ledger);
  const ages = [...newest.values()].map((ts) => rest.now - ts);
  return {
    ...historian.totals(),
    ...rest,
    version,
    problem: rest.storeProblem ?? linkProblem ?? historian.warning ?? null,
    missing: seqsIn(holes),
    holes: holes.length,
    lost: seqsIn(ledger.flatMap((entry) => entry.lost)),
    lastBatchAt: lastBatchAt > 0 ? (lastBatchAt as Millis) : null,
    freshnessMs: ages.length > 0 ? ages.reduce((least, age) => Math.min(least, age)) : null,
    ages,
    ledger,
  };
}

/** A gateway is as fresh as its newest epoch. */
function newestByGateway(ledger: readonly LedgerEntry[]): Map<string, number> {
  const newest = new Map<string, number>();
  for (const { gateway, newestTs } of ledger)
    if (newestTs !== null) newest.set(gateway, Math.max(newestTs, newest.get(gateway) ?? Number.NEGATIVE_INFINITY));
  return newest;
}

function seqsIn(ranges: readonly { readonly from: number; readonly to: number }[]): number {
  return ranges.reduce((sum, { from, to }) => sum + (to - from + 1), 0);
}
