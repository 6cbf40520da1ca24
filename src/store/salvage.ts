/**
 * Takes out of a damaged database what can still be read. A scan ends at the first bad page, although most pages behind it
 * are sound; a look-up of one row touches only the few pages on its way. So rows are read in pieces, and a piece that
 * fails is read row by row.
 */
import type { Database } from 'better-sqlite3';
import { systemCodeOf } from '../lib/errors.js';
import type { Damage, OpenTables, Tables } from './tables.js';

/** Rows per piece: large enough to be fast, small enough that a bad page costs few single look-ups. */
const PIECE_ROWS = 256;
/** Rows per transaction of the new file; what is in memory at once. */
const COMMIT_ROWS = 4_096;
/** After so many misses in a row only the first row of every piece is looked for: before the next one may lie millions. */
const SINGLE_MISSES_MAX = 20_000;
/** So many in a row, and it is taken for the end: damage can lead to rows at numbers that nobody has ever given. */
const MISSES_MAX = 200_000;
/** The new file cannot be written: not the damage's doing, and nothing may be left behind for it. */
const CANNOT_WRITE = /^SQLITE_(FULL|NOMEM|READONLY|IOERR_(WRITE|FSYNC|DIR_FSYNC|TRUNCATE))/;

export type Row = readonly unknown[];

interface Extent {
  /** Leaves the first rows away. */
  readonly after?: number;
  /** The highest rowid, if it is known. */
  readonly upTo?: number | undefined;
}

/** Rows of `table` by rising rowid, as many as can be read: rowid and then the columns of `list`. */
export function* readableRows(old: Database, table: string, list: string, extent: Extent = {}): Generator<Row> {
  for (const row of searchRows(old, table, list, extent)) if (row) yield row;
}

/** The same, with a null after every few hundred look-ups that found nothing, so that whoever asks need not wait for long. */
export function* searchRows(
  old: Database,
  table: string,
  list: string,
  { after: start = 0, upTo }: Extent,
): Generator<Row | null> {
  const select = (where: string) => old.prepare(`SELECT rowid, ${list} FROM ${table} WHERE ${where}`).raw();
  const piece = attempt(() => select('rowid > ? ORDER BY rowid LIMIT ?'));
  const one = attempt(() => select('rowid = ?'));
  if (!piece || !one) return;
  const isAnyBehind = (rowid: number) => attempt(() => piece.get(rowid, 1)) !== undefined;
  const end = upTo ?? attempt(() => old.prepare(`SELECT max(rowid) FROM ${table}`).pluck().get() as number) ?? Infinity;
  const first = attempt(() => piece.get(start, 1) as Row | undefined);
  const isDead = (after: number) => end === Infinity && !isAnyFarBehind(after, isAnyBehind);
  if (!first && isDead(start)) return;
  let after = first ? (first[0] as number) - 1 : start;
  for (let misses = 0; misses < MISSES_MAX && after < end; ) {
    const rows = attempt(() => piece.all(after, PIECE_ROWS) as Row[]);
    const last = rows?.at(-1)?.[0] as number | undefined;
    // A number that its page has and the tree does not lead to would carry over everything in between.
    const isSane = rows && rises(rows, after) && (last === undefined || attempt(() => one.get(last)) !== undefined);
    if (isSane) {
      yield* rows;
      if (rows.length < PIECE_ROWS) return;
      after = last as number;
      misses = 0;
      continue;
    }
    if (misses >= SINGLE_MISSES_MAX) {
      if (isDead(after)) return;
      while (misses < MISSES_MAX && after < end && !isAnyBehind(after + PIECE_ROWS)) {
        after += PIECE_ROWS;
        if (++misses % PIECE_ROWS === 0) yield null;
      }
      if (misses >= MISSES_MAX) return;
      misses = 0;
    }
    for (const to = after + PIECE_ROWS; after < to; after++) {
      const row = attempt(() => one.get(after + 1) as Row | undefined);
      if (row) yield row;
      misses = row ? 0 : misses + 1;
    }
    yield null;
  }
}

/** Where nobody knows the end: whether anything can be read behind `after`, looked for in ever wider steps. */
function isAnyFarBehind(after: number, isAnyBehind: (rowid: number) => boolean): boolean {
  for (let far = PIECE_ROWS; after + far < Number.MAX_SAFE_INTEGER; far *= 2) if (isAnyBehind(after + far)) return true;
  return false;
}

/** Damage can make a table a circle. */
function rises(rows: readonly Row[], after: number): boolean {
  return rows.every(([rowid], n) => (rowid as number) > (n === 0 ? after : ((rows[n - 1] as Row)[0] as number)));
}

/** Fills the new tables of one owner: in its own way, or else row by row. */
export function salvageTables(
  old: Database | undefined,
  fresh: Database,
  module: Tables,
  owner: OpenTables,
  damage: Damage,
  sparing: boolean,
): void {
  if (owner.salvage) {
    owner.salvage(old, damage, sparing);
    return;
  }
  if (!old) return;
  for (const [, table] of module.migrations.join('\n').matchAll(/CREATE TABLE (\w+)/g))
    copyTable(old, fresh, table as string);
}

/** Rows that clash with others or do not fit the new schema stay behind. */
export function copyTable(old: Database, fresh: Database, table: string): void {
  const columns = commonColumns(old, fresh, table);
  if (columns.length === 0) return;
  const list = columns.join(', ');
  const places = columns.map(() => '?').join(', ');
  const insert = fresh.prepare(`INSERT OR IGNORE INTO ${table} (${list}) VALUES (${places})`);
  const hasRowid = attempt(() => old.prepare(`SELECT rowid FROM ${table} LIMIT 1`)) !== undefined;
  const rows = hasRowid
    ? withoutRowid(readableRows(old, table, list))
    : untilDamage(old, `SELECT ${list} FROM ${table}`);
  inPieces(fresh, rows, (row) => tryWrite(() => insert.run(...row)));
}

/** Runs `act` on every item, with a commit now and then. */
export function inPieces<T>(
  fresh: Database,
  items: Iterable<T>,
  act: (item: T) => void,
  beforeCommit?: () => void,
): void {
  let count = 0;
  fresh.exec('BEGIN');
  for (const item of items) {
    act(item);
    if (++count % COMMIT_ROWS !== 0) continue;
    beforeCommit?.();
    fresh.exec('COMMIT; BEGIN');
  }
  beforeCommit?.();
  fresh.exec('COMMIT');
}

/** What `read` returns, or undefined when the damage is in its way. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Returns whether the new file took it. Throws when it takes nothing at all. */
export function tryWrite(write: () => unknown): boolean {
  try {
    write();
    return true;
  } catch (error) {
    if (CANNOT_WRITE.test(systemCodeOf(error) ?? '')) throw error;
    return false;
  }
}

function* withoutRowid(rows: Iterable<Row>): Generator<Row> {
  for (const [, ...row] of rows) yield row;
}

/** Tables whose rows cannot be looked up by a number are small: what comes before the damage is taken. */
function* untilDamage(old: Database, sql: string): Generator<Row> {
  const rows = attempt(() => old.prepare(sql).raw().iterate() as IterableIterator<Row>);
  if (!rows) return;
  for (let next = attempt(() => rows.next()); next && !next.done; next = attempt(() => rows.next())) yield next.value;
}

function commonColumns(old: Database, fresh: Database, table: string): string[] {
  const columns = (db: Database) =>
    attempt(() => db.prepare('SELECT name FROM pragma_table_info(?)').pluck().all(table) as string[]) ?? [];
  const there = new Set(columns(old));
  return columns(fresh).filter((name) => there.has(name));
}
