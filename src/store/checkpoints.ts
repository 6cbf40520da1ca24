import type { Database } from 'better-sqlite3';
import { unlessFull } from './full.js';

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

  /**
   * Call after commits. Returns whether the device has room for it: when it has not, the log goes on growing where it may
   * write over itself, up to more than the ballast can take. Throws what else SQLite throws.
   */
  whenDue(): boolean {
    const state = this.look.get();
    return !(state && state.log - state.checkpointed >= this.logPagesMax) || this.now();
  }

  /** The same at once; call before the file is closed. */
  now(): boolean {
    return unlessFull(() => this.db.pragma('wal_checkpoint(PASSIVE)'));
  }
}
