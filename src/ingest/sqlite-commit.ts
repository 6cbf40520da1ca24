import Database from 'better-sqlite3';
import { HoldfastError, messageOf, systemCodeOf } from '../lib/errors.js';
import { markIfIoError } from '../lib/sqlite-io-error.js';

/** Work that waits together shares one fsync. A transaction beyond this blocks the event loop for too long. */
const TRANSACTION_ROWS_MAX = 20_000;
/** The log is moved into the file this often: seldom enough to cost nothing, often enough to keep it at some megabytes. */
const CHECKPOINT_COMMITS = 200;
const CHECKPOINT_ROWS = 20_000;
/** SQLite's codes that are about the row, not about the store: the same work would fail for ever. */
const DATA_ERRORS = /^SQLITE_(CONSTRAINT|MISMATCH|TOOBIG|RANGE)/;

interface Job {
  readonly rows: number;
  /** Runs inside the transaction. */
  apply(): void;
  resolve(): void;
  reject(error: HoldfastError): void;
}

/**
 * Group commit on one connection. Work that is handed over in the same turn of the event loop is committed in one
 * transaction, each piece in a savepoint of its own, and settled only after the commit, in the order it came in.
 *
 * A full disk or a lock rejects what was in the transaction and the next work tries again. After an I/O error nothing is
 * written any more: see lib/sqlite-io-error.ts.
 */
export class GroupCommit {
  readonly broken: Promise<HoldfastError>;
  private readonly db: Database.Database;
  private readonly path: string;
  private readonly onRollback: () => void;
  private waiting: Job[] = [];
  private sinceCheckpoint = { commits: 0, rows: 0 };
  private closed = false;
  private brokenBy: HoldfastError | undefined;
  private breakNow: (error: HoldfastError) => void = () => {};

  /** `onRollback` drops what callers have learnt from rows that are gone again. */
  constructor(db: Database.Database, path: string, onRollback: () => void) {
    this.db = db;
    this.path = path;
    this.onRollback = onRollback;
    this.broken = new Promise((resolve) => {
      this.breakNow = resolve;
    });
  }

  /** What `write` returned, once it is durable. Rejects with `historian.io`, `historian.rejected` or `historian.closed`. */
  run<T>(rows: number, write: () => T): Promise<T> {
    if (this.closed) return Promise.reject(new HoldfastError('historian.closed', `${this.path} is closed`));
    return new Promise<T>((resolve, reject) => {
      let result: T;
      const apply = () => {
        result = write();
      };
      if (this.waiting.length === 0) setImmediate(() => this.commit());
      this.waiting.push({ rows, apply, resolve: () => resolve(result), reject });
    });
  }

  /** Commits what waits, calls `beforeClose` for a last look, and closes the connection. */
  close(beforeClose: () => void): void {
    if (this.closed) return;
    this.closed = true;
    while (this.waiting.length > 0) this.commit();
    // Without a checkpoint, because the file carries the mark; the process ends anyway.
    if (this.brokenBy) return;
    beforeClose();
    this.checkpoint();
    this.db.close();
  }

  private commit(): void {
    const jobs = this.take();
    if (jobs.length === 0) return;
    if (this.brokenBy) {
      rejectAll(jobs, this.brokenBy);
      return;
    }
    const refused = new Map<Job, HoldfastError>();
    try {
      this.db.exec('BEGIN IMMEDIATE');
      for (const job of jobs) {
        const error = this.attempt(job);
        if (error) refused.set(job, error);
      }
      this.db.exec('COMMIT');
    } catch (error) {
      rejectAll(jobs, this.failed(error));
      return;
    }
    for (const job of jobs) {
      const error = refused.get(job);
      if (error) job.reject(error);
      else job.resolve();
    }
    this.checkpointWhenDue(jobs);
  }

  /** The error when the job alone is at fault; throws when the store is. */
  private attempt(job: Job): HoldfastError | undefined {
    this.db.exec('SAVEPOINT job');
    let refusal: HoldfastError | undefined;
    try {
      job.apply();
    } catch (cause) {
      if (!isAboutData(cause) || !this.db.inTransaction) throw cause;
      this.db.exec('ROLLBACK TO job');
      this.onRollback();
      const message = `${this.path} cannot take this batch: ${messageOf(cause)}`;
      refusal = new HoldfastError('historian.rejected', message, { cause });
    }
    this.db.exec('RELEASE job');
    return refusal;
  }

  private take(): Job[] {
    let rows = 0;
    let count = 0;
    for (const job of this.waiting) {
      if (count > 0 && rows + job.rows > TRANSACTION_ROWS_MAX) break;
      rows += job.rows;
      count++;
    }
    const jobs = this.waiting.splice(0, count);
    if (this.waiting.length > 0) setImmediate(() => this.commit());
    return jobs;
  }

  private checkpointWhenDue(jobs: readonly Job[]): void {
    const due = this.sinceCheckpoint;
    due.commits++;
    for (const { rows } of jobs) due.rows += rows;
    if (due.commits < CHECKPOINT_COMMITS && due.rows < CHECKPOINT_ROWS) return;
    this.sinceCheckpoint = { commits: 0, rows: 0 };
    this.checkpoint();
  }

  /** By itself SQLite would do it quietly when the file is closed, and its failure would go unnoticed. */
  private checkpoint(): void {
    try {
      this.db.pragma('wal_checkpoint(PASSIVE)');
    } catch (error) {
      this.failed(error);
    }
  }

  /** Undoes the transaction, or stops for good after a real I/O error. */
  private failed(cause: unknown): HoldfastError {
    const error = ioError(this.path, cause);
    this.onRollback();
    if (systemCodeOf(cause)?.startsWith('SQLITE_IOERR')) {
      markIfIoError(this.path, cause);
      this.brokenBy = error;
      this.breakNow(error);
      return error;
    }
    try {
      if (this.db.inTransaction) this.db.exec('ROLLBACK');
    } catch (again) {
      return this.failed(again);
    }
    return error;
  }
}

export function ioError(path: string, cause: unknown, doing: 'written' | 'read' = 'written'): HoldfastError {
  return new HoldfastError('historian.io', `${path} cannot be ${doing}: ${messageOf(cause)}`, {
    values: { path, sqlite: systemCodeOf(cause) },
    cause,
    ...(doing === 'written' && {
      hint: 'Nothing of it was acknowledged; it comes again once there is room and the disk works.',
    }),
  });
}

function isAboutData(error: unknown): boolean {
  return !(error instanceof Database.SqliteError) || DATA_ERRORS.test(error.code);
}

function rejectAll(jobs: readonly Job[], error: HoldfastError): void {
  for (const job of jobs) job.reject(error);
}
