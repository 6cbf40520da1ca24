import type { Database } from 'better-sqlite3';
import { systemCodeOf } from '../lib/errors.js';

interface LogState {
  readonly log: number;
  readonly checkpointed: number;
}

/**
 * Moves the write-ahead log into the file. SQLite would do it by itself after a commit and when the file is closed, but
 * keep quiet when it fails, and whoever goes on after a checkpoint that failed can lose the whole file.
 */
export class Checkpoints {
  private readonly db: Database;
  private readonly logPagesMax: number;
  private readonly look;

  constructor(db: Database, logPagesMax: number) {
    this.db = db;
    this.logPagesMax = logPagesMax;
    this.look = db.prepare<[], LogState>('PRAGMA wal_checkpoint(NOOP)');
  }

  /** Call after commits. Throws what SQLite throws, but a full device is left for the next commit to meet. */
  whenDue(): void {
    const state = this.look.get();
    if (state && state.log - state.checkpointed >= this.logPagesMax) this.now();
  }

  /** The same at once; call before the file is closed. */
  now(): void {
    try {
      this.db.pragma('wal_checkpoint(PASSIVE)');
    } catch (error) {
      if (!systemCodeOf(error)?.startsWith('SQLITE_FULL')) throw error;
    }
  }
}
