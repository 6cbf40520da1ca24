/**
 * Copies the rows of a damaged spool into a new one, in their order and as fast as SQLite can: a piece that reads without
 * an error goes over in one statement, and only where one fails it is taken in ever smaller pieces and at last row by row.
 *
 * A row's checksum travels with it. Where rows are taken one by one a wrong one stays behind; in a sound piece nobody looks,
 * but whoever reads the row to send it does, and sets it aside.
 */
import type { Database } from 'better-sqlite3';
import { assert } from '../lib/assert.js';
import { systemCodeOf } from '../lib/errors.js';
import { DAMAGED, withAttached } from '../store/attached.js';
import { attempt, inPieces, type Row, rises, tryWrite } from '../store/salvage.js';
import { isSound } from './checksum.js';
import type { Holes } from './holes.js';
import type { InsertArgs } from './tables.js';

export const COLUMNS = 'topic, payload, props, flags, asset_id, metric_name, device_ts, enqueued_at';
/** Of a piece: many, because a statement has a price; few, because a bad page costs single look-ups. */
const ROWS_MAX = 32_768;
const ROWS_MIN = 256;
/** A piece that fails is tried again as so many smaller ones. */
const PARTS = 8;
/** Where the table ends may be unreadable: so many look-ups in a row find nothing, and it is taken for its end. */
const MISSES_MAX = 200_000;
/** After so many only the first row of every piece is looked for: before the first page that reads may lie millions. */
const SINGLE_MISSES_MAX = 20_000;
/** The new file cannot be written, which is not the damage's doing. */
const CANNOT_WRITE = /^SQLITE_(FULL|NOMEM|READONLY|IOERR_(WRITE|FSYNC|DIR_FSYNC|TRUNCATE))/;

export class RowCopy {
  private readonly fresh: Database;
  private readonly old: Database;
  private readonly holes: Holes;
  private readonly list: string;
  /** Seq of the first row that is copied. */
  private readonly start: number;
  private next: number;

  /** `start` is one past the highest seq that the new file has given. */
  constructor(fresh: Database, old: Database, start: number, holes: Holes) {
    this.fresh = fresh;
    this.old = old;
    this.holes = holes;
    this.start = this.next = start;
    this.list = `${COLUMNS}, ${sumColumn(old)}`;
  }

  /** Copies what can be read up to the seq `tail`, if that is known. Returns how many rows that were. */
  run(tail: number | undefined): number {
    const { fresh, old } = this;
    if (!attempt(() => old.prepare(`SELECT ${this.list} FROM spool`))) return 0;
    const end = tail ?? attempt(() => old.prepare('SELECT max(seq) FROM spool').pluck().get() as number) ?? Infinity;
    const head = attempt(() => old.prepare('SELECT seq FROM spool ORDER BY seq LIMIT 1').pluck().get() as number);
    const after = (head ?? 1) - 1;
    if (!withAttached(fresh, old, () => this.inBulk(after, end))) this.oneByOne(after, end);
    return this.next - this.start;
  }

  private inBulk(head: number, end: number): void {
    const extent = this.old
      .prepare<[number, number], [number, number, number]>(
        'SELECT count(*), min(seq), max(seq) FROM (SELECT seq FROM spool WHERE seq > ? ORDER BY seq LIMIT ?)',
      )
      .raw();
    const isThere = this.old.prepare('SELECT 1 FROM spool WHERE seq = ?');
    let size = ROWS_MAX;
    let misses = 0;
    for (let after = head; after < end && misses < MISSES_MAX; ) {
      if (misses >= SINGLE_MISSES_MAX && !attempt(() => extent.get(after, 1))) {
        after += ROWS_MIN;
        misses++;
        continue;
      }
      if (misses > SINGLE_MISSES_MAX) {
        this.oneByOne(after - ROWS_MIN, after);
        misses = 0;
      }
      const [count, first, last] = attempt(() => extent.get(after, size)) ?? [0, 0, 0];
      if (count === 0 && attempt(() => extent.get(after, 1))?.[0] === 0) return;
      // A seq that its page has and the tree does not lead to would carry over everything in between.
      const isSane = count > 0 && first > after && attempt(() => isThere.get(last)) !== undefined;
      if (isSane && this.piece(after, count, first, last)) {
        if (count < size) return;
        after = last;
        size = Math.min(ROWS_MAX, size * 2);
        misses = 0;
      } else if (size > ROWS_MIN) {
        size = Math.max(ROWS_MIN, Math.floor(size / PARTS));
      } else {
        misses = this.oneByOne(after, Math.min(end, after + ROWS_MIN), misses);
        after += ROWS_MIN;
      }
    }
  }

  /** All rows of a piece, or none. Returns whether it was all. */
  private piece(after: number, count: number, first: number, last: number): boolean {
    const copy = this.fresh.transaction(() => {
      if (last - first === count - 1) this.unbroken(after, count, first, last);
      else this.broken(after, count);
    });
    try {
      copy();
    } catch (error) {
      if (CANNOT_WRITE.test(systemCodeOf(error) ?? '')) throw error;
      return false;
    }
    this.next += count;
    return true;
  }

  /** Seqs without a hole move by one distance, so that a page which the tree leads to twice clashes with itself. */
  private unbroken(after: number, count: number, first: number, last: number): void {
    const { fresh, start, next } = this;
    const { changes } = fresh
      .prepare(
        `INSERT INTO spool SELECT seq + ?, ${this.list} FROM ${DAMAGED}.spool WHERE seq > ? ORDER BY seq LIMIT ?`,
      )
      .run(next - first, after, count);
    const [lowest, highest] = fresh
      .prepare('SELECT (SELECT min(seq) FROM spool), (SELECT max(seq) FROM spool)')
      .raw()
      .get() as [number, number];
    const isWhole = changes === count && lowest >= start && highest === next + count - 1;
    assert(isWhole, 'as many rows as numbers, each of them once', { changes, count, lowest, highest });
    const at = fresh.prepare('SELECT enqueued_at FROM spool WHERE seq = ?').pluck();
    this.holes.pass(first, at.get(next) as number);
    this.holes.run(last, at.get(highest) as number);
  }

  /** Rows have left from the middle: they are numbered anew, and somebody has to look at the order. */
  private broken(after: number, count: number): void {
    const piece = 'spool WHERE seq > ? ORDER BY seq LIMIT ?';
    const seqs = this.old.prepare(`SELECT seq, enqueued_at FROM ${piece}`).raw().all(after, count) as [
      number,
      number,
    ][];
    assert(rises(seqs, after), 'rows come in the order of their seqs');
    const { changes, lastInsertRowid } = this.fresh
      .prepare(`INSERT INTO spool SELECT NULL, ${this.list} FROM ${DAMAGED}.${piece}`)
      .run(after, count);
    const isWhole = changes === seqs.length && Number(lastInsertRowid) === this.next + count - 1;
    assert(isWhole, 'the sequence rises by one', { changes, count, lastInsertRowid });
    for (const [seq, at] of seqs) this.holes.pass(seq, at);
  }

  /** Returns how many look-ups have found nothing since the last one that did. */
  private oneByOne(after: number, end: number, missesBefore = 0): number {
    const one = this.old.prepare(`SELECT ${this.list} FROM spool WHERE seq = ?`).raw();
    const insert = this.fresh.prepare('INSERT INTO spool VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)');
    let misses = missesBefore;
    const seqs = function* (): Generator<number> {
      for (let seq = after + 1; seq <= end && misses < MISSES_MAX; seq++) yield seq;
    };
    inPieces(this.fresh, seqs(), (seq) => {
      const row = attempt(() => one.get(seq) as Row | undefined);
      misses = row ? 0 : misses + 1;
      if (!row || !isSound(row.slice(0, 8) as unknown as InsertArgs, row[8] as number | null)) return;
      if (!tryWrite(() => insert.run(this.next, ...row))) return;
      this.next++;
      this.holes.pass(seq, row[7] as number);
    });
    return misses;
  }
}

/** Older files have none. */
function sumColumn(old: Database): string {
  const has = attempt(() => old.prepare("SELECT 1 FROM pragma_table_info('spool') WHERE name = 'checksum'").get());
  return has ? 'checksum' : 'NULL';
}
