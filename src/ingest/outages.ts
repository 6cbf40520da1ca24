/**
 * What has to be proved after an outage, as a pure state machine: no clock, no store. A gateway that was silent for longer
 * than `afterMs` and is back leaves a case: the hours of device time from its last reading before the silence to its return.
 *
 * A case is ripe when the gateway's readings have passed the end of the outage: it sends in the order of seq, so by then
 * everything before has come or is missing. It closes when every hour of it is complete. When neither the readings advance
 * nor the case closes for `withinMs`, it is overdue: that needs somebody to look. It stays open and is tried again.
 */
import type { GatewayId, Millis } from '../model/ids.js';
import type { LedgerEntry } from './historian.js';

export interface OutageRules {
  readonly afterMs: number;
  readonly withinMs: number;
}

export interface OutageCase {
  readonly gateway: GatewayId;
  /** Device time to be proved, half open. */
  readonly from: Millis;
  readonly to: Millis;
  /** When it last made progress. */
  readonly since: Millis;
  readonly newestTs: Millis;
  readonly ripe: boolean;
  readonly overdue: boolean;
  /** A later outage, whose turn comes when this one is closed: a gateway that calls once an hour never comes to rest. */
  readonly next: Pick<OutageCase, 'from' | 'to'> | null;
  /** Metric hours that are not complete, at the last check; null before it. */
  readonly incomplete: number | null;
}

interface Seen {
  readonly lastBatchAt: Millis;
  readonly newestTs: Millis | null;
}

export interface OutageState {
  readonly seen: ReadonlyMap<GatewayId, Seen>;
  readonly cases: ReadonlyMap<GatewayId, OutageCase>;
}

export const NO_OUTAGES: OutageState = { seen: new Map(), cases: new Map() };

/** Takes in what the ledger says at `now`; the same state when nothing has changed. */
export function observe(
  state: OutageState,
  ledger: readonly LedgerEntry[],
  now: Millis,
  rules: OutageRules,
): OutageState {
  const seen = new Map<GatewayId, Seen>();
  for (const { gateway, lastBatchAt, newestTs } of ledger) {
    const other = seen.get(gateway);
    seen.set(gateway, {
      lastBatchAt: later(lastBatchAt, other?.lastBatchAt),
      newestTs: latest(newestTs, other?.newestTs),
    });
  }
  const cases = new Map<GatewayId, OutageCase>();
  for (const [gateway, { lastBatchAt, newestTs }] of seen) {
    const before = state.seen.get(gateway);
    const silent = before !== undefined && lastBatchAt - before.lastBatchAt > rules.afterMs;
    const open = state.cases.get(gateway);
    if (newestTs === null) continue;
    const lastTs = before?.newestTs ?? before?.lastBatchAt;
    if (open) {
      const next = silent ? { from: open.next?.from ?? (lastTs as Millis), to: lastBatchAt } : open.next;
      cases.set(gateway, { ...advanced(open, newestTs, now, rules), next });
    } else if (silent) cases.set(gateway, fresh(gateway, lastTs as Millis, lastBatchAt, newestTs, now));
  }
  return { seen, cases };
}

/** Takes in the result of a check of a ripe case at `now`. */
export function checked(state: OutageState, gateway: GatewayId, incomplete: number, now: Millis): OutageState {
  const cases = new Map(state.cases);
  const open = cases.get(gateway);
  if (!open) return state;
  if (incomplete === 0 && open.next) {
    cases.set(gateway, fresh(gateway, open.next.from, open.next.to, open.newestTs, now));
  } else if (incomplete === 0) cases.delete(gateway);
  else cases.set(gateway, { ...open, incomplete });
  return { ...state, cases };
}

function fresh(gateway: GatewayId, from: Millis, to: Millis, newestTs: Millis, now: Millis): OutageCase {
  const ripe = newestTs >= to;
  return { gateway, from, to, since: now, newestTs, ripe, overdue: false, next: null, incomplete: null };
}

function advanced(open: OutageCase, newestTs: Millis, now: Millis, { withinMs }: OutageRules): OutageCase {
  if (open.ripe) return { ...open, overdue: now - open.since > withinMs };
  const ripe = newestTs >= open.to;
  if (newestTs > open.newestTs || ripe) return { ...open, newestTs, since: now, ripe, overdue: false };
  return { ...open, overdue: now - open.since > withinMs };
}

function later(a: Millis, b: Millis | undefined): Millis {
  return b !== undefined && b > a ? b : a;
}

function latest(a: Millis | null, b: Millis | null | undefined): Millis | null {
  return a === null || (b !== null && b !== undefined && b > a) ? (b ?? null) : a;
}
