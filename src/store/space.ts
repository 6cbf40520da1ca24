import type { Database } from 'better-sqlite3';
import { Ballast } from './ballast.js';
import { markOpen } from './database.js';
import { unlessFull } from './full.js';
import type { WorkerOptions } from './protocol.js';

/**
 * A file that is more than half empty is worth shrinking, in steps that hold the thread for about a millisecond. Below
 * this many pages the free ones are kept: the next rows will want them.
 */
const VACUUM_FREE_PAGES_MIN = 1_000;
const VACUUM_STEP_PAGES = 64;
/** SQLite may refuse a row that needs several pages some pages before the limit. */
const LIMIT_MARGIN_PAGES = 64;

/**
 * The pages of the file and the room on its device. While the device is full (`isSqueezed`) the ballast is given up, and
 * only what makes room is to be run.
 */
export class Space {
  private readonly db: Database;
  private readonly path: string;
  private readonly pagesMax: number | undefined;
  private readonly ballast: Ballast | undefined;
  private readonly pageCount;
  private readonly freePages;
  private squeezed = false;
  private marked = false;

  constructor(db: Database, path: string, { pagesMax, ballastBytes }: WorkerOptions) {
    this.db = db;
    this.path = path;
    this.pagesMax = pagesMax;
    if (pagesMax !== undefined) db.pragma(`max_page_count = ${pagesMax}`);
    if (ballastBytes !== undefined) this.ballast = new Ballast(path, ballastBytes);
    this.pageCount = db.prepare('PRAGMA page_count').pluck();
    this.freePages = db.prepare('PRAGMA freelist_count').pluck();
  }

  get pages(): number {
    return this.pageCount.get() as number;
  }

  get free(): number {
    return this.freePages.get() as number;
  }

  /** The device, and not just the file's limit, is full. */
  get isSqueezed(): boolean {
    return this.squeezed;
  }

  /** The file's own limit has been reached; without a ballast it is taken for that. */
  get isAtLimit(): boolean {
    if (!this.ballast || this.pagesMax === undefined) return true;
    return this.pages >= this.pagesMax - LIMIT_MARGIN_PAGES;
  }

  /** At the start: marks the file, in the space of the ballast if need be, and puts the ballast in place. */
  settle(): void {
    if (!this.mark()) {
      this.squeeze();
      this.mark();
    } else if (this.ballast?.restore() === false) this.squeezed = true;
  }

  /**
   * Gives the ballast up, for the log to be moved into the file. Then the next commit begins the log anew and needs no space
   * of its own; in the other order a deletion could take what the move needs.
   */
  squeeze(): void {
    this.squeezed = true;
    this.ballast?.release();
    unlessFull(() => this.db.pragma('wal_checkpoint(PASSIVE)'));
  }

  /** Returns whether there is room again. Without a ballast it is simply tried. */
  relax(): boolean {
    this.squeezed = !this.mark() || this.ballast?.restore() === false;
    return !this.squeezed;
  }

  /** The file says that it has a log; nothing may be committed before. Returns whether it does. */
  mark(): boolean {
    if (!this.marked) {
      unlessFull(() => {
        markOpen(this.db, { path: this.path });
        this.marked = true;
      });
    }
    return this.marked;
  }

  /** Gives pages of deleted rows back to the file system, a little at a time; returns whether there may be more. */
  vacuumStep(): boolean {
    const { free } = this;
    if (free < VACUUM_FREE_PAGES_MIN || free < this.pages / 2) return false;
    this.db.pragma(`incremental_vacuum(${VACUUM_STEP_PAGES})`);
    return true;
  }

  /** Every free page, step by step, so that no step needs more log than the ballast has left. */
  giveBack(): void {
    for (let before = Number.POSITIVE_INFINITY; ; ) {
      this.db.pragma('wal_checkpoint(PASSIVE)');
      const { free } = this;
      if (free === 0 || free >= before) return;
      before = free;
      this.db.pragma(`incremental_vacuum(${VACUUM_STEP_PAGES})`);
    }
  }
}
