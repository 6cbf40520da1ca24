import { createHash } from 'node:crypto';
import { dirname, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { type Clock, systemClock } from '../lib/clock.js';
import { HoldfastError } from '../lib/errors.js';
import { makeFolder, syncFolder } from '../lib/folder.js';
import { healAfterIoError, markIfIoError } from '../lib/sqlite-io-error.js';
import type { Source } from '../model/row.js';
import type { Batch } from '../wire/batch.js';
import {
  type DeadBatch,
  FUTURE_MS_MAX,
  type Historian,
  type LedgerEntry,
  NO_TOTALS,
  type Outcome,
  type Totals,
} from './historian.js';
import { GroupCommit, ioError } from './sqlite-commit.js';
import { SqliteRollups } from './sqlite-rollups.js';
import { migrate } from './sqlite-schema.js';
import { SqliteWriter } from './sqlite-writer.js';

export interface SqliteHistorianOptions {
  /** A file of its own on a local disk. */
  readonly path: string;
  /** Readings whose device time is further ahead of this machine's clock are kept aside. */
  readonly futureMaxMs?: number;
  /** Age at which single readings are removed; never by default. */
  readonly rawHorizonMs?: number;
  /** The file grows no further than this; then batches are refused until there is room. Not limited by default. */
  readonly bytesMax?: number;
  readonly clock?: Clock;
}

const BUSY_TIMEOUT_MS = 5000;
const SYNCHRONOUS_FULL = 2;

/**
 * The embedded historian: one SQLite file in WAL mode with `synchronous=FULL`. Every batch is all or nothing; batches that
 * wait together are committed together, and each is settled only after that commit.
 */
export class SqliteHistorian implements Historian {
  readonly broken: Promise<HoldfastError>;
  readonly rollups: SqliteRollups;
  private readonly clock: Clock;
  private readonly writer: SqliteWriter;
  private readonly group: GroupCommit;
  private readonly addTotals: Database.Statement<[Totals]>;
  private readonly insertDead: Database.Statement<unknown[]>;
  private counts: Totals;
  /** What `ledger` answers once the file is closed. */
  private lastLedger: readonly LedgerEntry[] | undefined;

  private constructor(
    db: Database.Database,
    { path, futureMaxMs = FUTURE_MS_MAX, rawHorizonMs, clock = systemClock }: SqliteHistorianOptions,
  ) {
    this.clock = clock;
    this.writer = new SqliteWriter(db, futureMaxMs);
    this.group = new GroupCommit(db, path, () => this.writer.forget());
    this.broken = this.group.broken;
    this.rollups = new SqliteRollups(db, this.group, rawHorizonMs);
    this.addTotals = db.prepare(
      `UPDATE totals SET batches = batches + @batches, rows = rows + @rows, stored = stored + @stored,
       duplicates = duplicates + @duplicates, conflicts = conflicts + @conflicts, gaps = gaps + @gaps,
       quarantined = quarantined + @quarantined, opaque = opaque + @opaque, dead_batches = dead_batches + @deadBatches`,
    );
    this.insertDead = db.prepare(
      `INSERT INTO dead_batches (topic, sha256, code, reason, bytes, received_at) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT DO NOTHING`,
    );
    this.counts = db
      .prepare<[], Totals>(
        `SELECT batches, rows, stored, duplicates, conflicts, gaps, quarantined, opaque, dead_batches AS deadBatches
         FROM totals`,
      )
      .get()!;
  }

  /** Throws `historian.version` or `historian.io`. */
  static async open(options: SqliteHistorianOptions): Promise<SqliteHistorian> {
    const { path, bytesMax } = options;
    let db: Database.Database | undefined;
    try {
      makeFolder(dirname(resolve(path)));
      healAfterIoError(path);
      db = new Database(path, { timeout: BUSY_TIMEOUT_MS });
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = FULL');
      // SQLite ignores the errors of its own automatic checkpoints, and they must not go unnoticed.
      db.pragma('wal_autocheckpoint = 0');
      migrate(db, path);
      requireDurable(db, path);
      // SQLite has just created the log, and does not look whether the sync of its name succeeded.
      syncFolder(dirname(resolve(path)));
      if (bytesMax !== undefined) limitSize(db, bytesMax);
      return new SqliteHistorian(db, options);
    } catch (error) {
      markIfIoError(path, error);
      db?.close();
      throw error instanceof HoldfastError ? error : ioError(path, error);
    }
  }

  async ingest(batch: Batch): Promise<Outcome> {
    const rows = batch.rows.length;
    const { outcome, delta } = await this.group.run(rows, () => {
      const outcome = this.writer.write(batch, this.clock.now());
      const delta: Totals = { ...outcome, batches: 1, rows, deadBatches: 0 };
      this.addTotals.run(delta);
      return { outcome, delta };
    });
    this.counts = sum(this.counts, delta);
    return outcome;
  }

  async bury({ topic, bytes, code, reason }: DeadBatch): Promise<void> {
    const sha256 = createHash('sha256').update(bytes).digest();
    const delta = await this.group.run(1, () => {
      const { changes } = this.insertDead.run(topic, sha256, code, reason, bytes, this.clock.now());
      const delta: Totals = { ...NO_TOTALS, deadBatches: changes };
      this.addTotals.run(delta);
      return delta;
    });
    this.counts = sum(this.counts, delta);
  }

  totals(): Totals {
    return this.counts;
  }

  ledger(): readonly LedgerEntry[] {
    return this.lastLedger ?? this.writer.ledger.entries();
  }

  entry(source: Source): LedgerEntry | undefined {
    const ours = ({ gateway, epoch }: LedgerEntry) => gateway === source.gateway && epoch === source.epoch;
    return this.lastLedger ? this.lastLedger.find(ours) : this.writer.ledger.entry(source);
  }

  async close(): Promise<void> {
    this.group.close(() => {
      this.lastLedger = this.writer.ledger.entries();
    });
  }
}

/** SQLite tells what is in force only after the first write: this one changes nothing, but it is one. */
function requireDurable(db: Database.Database, path: string): void {
  db.exec('UPDATE totals SET id = 1');
  const mode = db.pragma('journal_mode', { simple: true });
  const synchronous = db.pragma('synchronous', { simple: true });
  if (mode === 'wal' && synchronous === SYNCHRONOUS_FULL) return;
  throw new HoldfastError('historian.io', `${path} cannot be written durably`, {
    values: { path, journalMode: mode, synchronous },
    hint: 'Put the file on a local disk with a file system that supports shared memory, such as ext4.',
  });
}

function limitSize(db: Database.Database, bytesMax: number): void {
  const pageBytes = db.pragma('page_size', { simple: true }) as number;
  db.pragma(`max_page_count = ${Math.max(1, Math.floor(bytesMax / pageBytes))}`);
}

function sum(totals: Totals, delta: Totals): Totals {
  const keys = Object.keys(totals) as (keyof Totals)[];
  return Object.fromEntries(keys.map((key) => [key, totals[key] + delta[key]])) as unknown as Totals;
}
