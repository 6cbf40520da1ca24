import type { Database } from 'better-sqlite3';

/** More ranges than this are told in several batches. */
const RANGES_MAX = 200;

export type Range = [first: number, last: number, reason: string];

/**
 * Seqs that the cloud will never get as rows: dropped, or set aside. They stay here until the cloud has acknowledged the
 * batch that told it of them, so that a hole in the sequence is known there for what it is.
 */
export class LostRanges {
  private readonly endingAt;
  private readonly insert;
  private readonly extend;
  private readonly select;
  private readonly remove;

  constructor(db: Database) {
    this.endingAt = db.prepare('SELECT first FROM spool_lost WHERE first <= ? AND last = ? AND reason = ?').pluck();
    this.insert = db.prepare('INSERT OR REPLACE INTO spool_lost VALUES (?, ?, ?)');
    this.extend = db.prepare('UPDATE spool_lost SET last = ? WHERE first = ?');
    this.select = db
      .prepare('SELECT max(first, ? + 1), last, reason FROM spool_lost WHERE last > ? ORDER BY first LIMIT ?')
      .raw();
    this.remove = db.prepare('DELETE FROM spool_lost WHERE first <= ? AND last <= ?');
  }

  add(first: number, last: number, reason: string): void {
    const before = this.endingAt.get(first - 1, first - 1, reason) as number | undefined;
    if (before !== undefined) this.extend.run(last, before);
    else this.insert.run(first, last, reason);
  }

  /** Everything up to here has been told. */
  forget(upTo: number): void {
    this.remove.run(upTo, upTo);
  }

  /** The first ranges after a seq; up to `complete` there are no others. */
  after(seq: number): { readonly list: readonly Range[]; readonly complete: number } {
    const list = this.select.all(seq, seq, RANGES_MAX + 1) as Range[];
    const next = list[RANGES_MAX];
    return next ? { list: list.slice(0, RANGES_MAX), complete: next[0] - 1 } : { list, complete: Infinity };
  }
}
