import { type Clock, sleep } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import type { GatewayId, Millis } from '../model/ids.js';
import type { LedgerEntry } from './historian.js';
import { overlap, type SeqRange } from './ledger.js';
import { checked, NO_OUTAGES, type OutageCase, type OutageRules, type OutageState, observe } from './outages.js';
import type { Incomplete } from './reconcile-thread.js';

export interface WatchStatus {
  /** Holes that have been there for a while, and the seqs in them: batches do not overtake each other for so long. */
  readonly lateHoles: number;
  readonly lateMissing: number;
  /** Outages that are over and not proved complete yet. */
  readonly outages: readonly OutageCase[];
  readonly lastReconciledAt: Millis | null;
}

export interface WatchOptions extends OutageRules {
  readonly ledger: () => readonly LedgerEntry[];
  /** Counts what is not complete in a window of device time, per gateway. */
  readonly reconcile: (window: { from: Millis; to: Millis }, signal: AbortSignal) => Promise<Incomplete>;
  /** Between two looks at the ledger. */
  readonly lookMs?: number;
  /** Between two checks of an outage that is not complete. */
  readonly checkMs?: number;
  readonly clock: Clock;
  readonly log: Log;
}

const LOOK_MS = 10_000;
const CHECK_MS = 5 * 60_000;
/** Several workers and redelivery let batches overtake each other by seconds; a hole that is older needs somebody to look. */
const LATE_MS = 10 * 60_000;

interface Aged extends SeqRange {
  readonly since: number;
}

/** Looks at the ledger now and then: for holes that stay, and for gateways that are back after an outage. */
export class Watch {
  private readonly options: WatchOptions;
  private readonly stopping = new AbortController();
  private readonly rate = new RateLimit();
  private holes = new Map<string, readonly Aged[]>();
  private state: OutageState = NO_OUTAGES;
  private overdue = new Set<GatewayId>();
  private checkedAt = Number.NEGATIVE_INFINITY;
  private lastReconciledAt: Millis | null = null;
  private running: Promise<void> = Promise.resolve();

  constructor(options: WatchOptions) {
    this.options = options;
  }

  start(): void {
    this.running = this.run();
  }

  /** Gives up a check that is running. */
  async close(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  status(): WatchStatus {
    const now = this.options.clock.mono();
    const late = [...this.holes.values()].flat().filter(({ since }) => now - since >= LATE_MS);
    return {
      lateHoles: late.length,
      lateMissing: late.reduce((sum, { from, to }) => sum + to - from + 1, 0),
      outages: [...this.state.cases.values()],
      lastReconciledAt: this.lastReconciledAt,
    };
  }

  private async run(): Promise<void> {
    const { signal } = this.stopping;
    const { lookMs = LOOK_MS } = this.options;
    while (!signal.aborted) {
      try {
        this.look();
        await this.check();
      } catch (error) {
        if (!signal.aborted) this.complain(messageOf(error));
      }
      await sleep(lookMs, signal);
    }
  }

  private look(): void {
    const { clock, ledger, log } = this.options;
    const entries = ledger();
    this.holes = aged(this.holes, entries, clock.mono());
    const before = this.state.cases;
    this.state = observe(this.state, entries, clock.now(), this.options);
    for (const [gateway, { from, to, overdue, incomplete }] of this.state.cases) {
      const window = { gateway, from: new Date(from), to: new Date(to) };
      if (!before.has(gateway)) log.info(window, 'A gateway is back after an outage; its hours will be reconciled');
      if (overdue && !this.overdue.has(gateway))
        log.error({ ...window, incomplete }, 'An outage is not proved complete in time: run holdfast reconcile');
    }
    this.overdue = new Set([...this.state.cases.values()].filter((one) => one.overdue).map(({ gateway }) => gateway));
  }

  /** All ripe cases in one go, because outages are mostly shared. */
  private async check(): Promise<void> {
    const { clock, log, reconcile, checkMs = CHECK_MS } = this.options;
    const { signal } = this.stopping;
    const ripe = [...this.state.cases.values()].filter((one) => one.ripe);
    if (ripe.length === 0 || clock.mono() - this.checkedAt < checkMs) return;
    this.checkedAt = clock.mono();
    const from = Math.min(...ripe.map((one) => one.from)) as Millis;
    const to = Math.max(...ripe.map((one) => one.to)) as Millis;
    const incomplete = await reconcile({ from, to }, signal);
    this.lastReconciledAt = clock.now();
    for (const { gateway } of ripe) {
      const left = incomplete.get(gateway) ?? 0;
      this.state = checked(this.state, gateway, left, clock.now());
      if (left === 0)
        log.info({ gateway, from: new Date(from), to: new Date(to) }, 'An outage is complete: nothing is missing');
    }
  }

  private complain(reason: string): void {
    const held = this.rate.pass(reason);
    if (held !== undefined)
      this.options.log.warn({ reason, held }, 'The ledger could not be proved; it is tried again');
  }
}

/** A hole that overlaps one that was there before is as old as that one, however much of it has been filled. */
function aged(
  before: ReadonlyMap<string, readonly Aged[]>,
  ledger: readonly LedgerEntry[],
  now: number,
): Map<string, readonly Aged[]> {
  const after = new Map<string, readonly Aged[]>();
  for (const { gateway, epoch, holes } of ledger) {
    if (holes.length === 0) continue;
    const key = `${gateway}\0${epoch}`;
    const known = before.get(key) ?? [];
    const since = (hole: SeqRange) => known.find((one) => overlap([one], hole).length > 0)?.since ?? now;
    after.set(
      key,
      holes.map((hole) => ({ ...hole, since: since(hole) })),
    );
  }
  return after;
}
