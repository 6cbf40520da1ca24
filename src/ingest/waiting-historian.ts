import { Backoff } from '../lib/backoff.js';
import { sleep } from '../lib/clock.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import type { Source } from '../model/row.js';
import type { Batch } from '../wire/batch.js';
import { type DeadBatch, type Historian, type LedgerEntry, NO_TOTALS, type Outcome, type Totals } from './historian.js';
import type { Rollups } from './rollups.js';

const RETRY_WAIT = { minMs: 500, maxMs: 30_000 };

/** Nobody is there, or not ready yet: SQLSTATE classes 08 and 57P, too many clients, and what the network says. */
const NOT_YET = /^(08|57P|53300|E[A-Z_]+$)/;

/**
 * Stands in for a historian that cannot be reached yet, since a cloud side may be started in any order: opens it again and
 * again, and until that succeeds refuses every batch, so that none is acknowledged. What waiting cannot cure ends it.
 */
export class WaitingHistorian implements Historian {
  readonly broken: Promise<HoldfastError>;
  private readonly stop = new AbortController();
  private readonly running: Promise<void>;
  private breakNow: (error: HoldfastError) => void = () => {};
  private opened: Historian | undefined;
  private reason: HoldfastError;

  private constructor(open: () => Promise<Historian>, reason: HoldfastError, log: Log) {
    this.reason = reason;
    this.broken = new Promise((resolve) => {
      this.breakNow = resolve;
    });
    this.running = this.run(open, log);
  }

  /** The historian itself when it can be opened at once. Throws what waiting cannot cure. */
  static async open(open: () => Promise<Historian>, log: Log): Promise<Historian> {
    try {
      return await open();
    } catch (error) {
      if (!isNotYet(error)) throw error;
      return new WaitingHistorian(open, error, log);
    }
  }

  get problem(): string | undefined {
    return this.opened ? this.opened.problem : this.reason.message;
  }

  get warning(): string | undefined {
    return this.opened?.warning;
  }

  async ingest(batch: Batch): Promise<Outcome> {
    return this.historian().ingest(batch);
  }

  async bury(dead: DeadBatch): Promise<void> {
    return this.historian().bury(dead);
  }

  totals(): Totals {
    return this.opened?.totals() ?? NO_TOTALS;
  }

  readonly rollups: Rollups = {
    plan: async (now) => this.historian().rollups.plan(now),
    devices: async (now) => this.historian().rollups.devices(now),
    unit: async (now) => this.historian().rollups.unit(now),
    expire: async (now) => this.historian().rollups.expire(now),
  };

  ledger(): readonly LedgerEntry[] {
    return this.opened?.ledger() ?? [];
  }

  entry(source: Source): LedgerEntry | undefined {
    return this.opened?.entry(source);
  }

  async close(): Promise<void> {
    this.stop.abort();
    await this.running;
    await this.opened?.close();
  }

  private historian(): Historian {
    if (!this.opened) throw this.reason;
    return this.opened;
  }

  private async run(open: () => Promise<Historian>, log: Log): Promise<void> {
    const { signal } = this.stop;
    const backoff = new Backoff(RETRY_WAIT);
    const rate = new RateLimit();
    for (;;) {
      const held = rate.pass(this.reason.message);
      if (held !== undefined) log.warn({ reason: this.reason.message, held }, 'The historian cannot be opened yet');
      await sleep(backoff.next(), signal);
      if (signal.aborted) return;
      try {
        this.opened = await open();
        void this.opened.broken.then(this.breakNow);
        log.info({}, 'The historian is open');
        return;
      } catch (error) {
        this.reason = error instanceof HoldfastError ? error : new HoldfastError('historian.io', messageOf(error));
        if (!isNotYet(error)) {
          this.breakNow(this.reason);
          return;
        }
      }
    }
  }
}

function isNotYet(error: unknown): error is HoldfastError {
  return error instanceof HoldfastError && error.code === 'historian.io' && NOT_YET.test(String(error.values.sqlstate));
}
