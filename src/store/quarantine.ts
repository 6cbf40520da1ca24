/**
 * Moves a damaged database away, all of its files together: without its log a database is silently older. The move is
 * announced in a mark beside it first, so that a crash in the middle is finished by the next start and never leaves half of
 * it to be opened. The mark stays until the new file is in place.
 */
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import SQLite, { type Database } from 'better-sqlite3';
import { makeFolder, syncFolder } from '../lib/folder.js';
import type { Damage } from './tables.js';

/** A database and what SQLite may keep beside it; the log goes before its file. */
const SUFFIXES = ['-wal', '-journal', '-shm', ''];

const markOf = (path: string) => `${path}-quarantine`;

/** A quarantine that has begun and is not finished. */
export function unfinishedQuarantine(path: string): Damage | undefined {
  const mark = markOf(path);
  if (!existsSync(mark)) return undefined;
  const damage = parse(readFileSync(mark, 'utf8'));
  // Cut short before the mark was synced, so nothing has been moved yet; or done, but for taking the mark away.
  if (damage && !(existsSync(path) && existsSync(join(damage.folder, basename(path))))) return damage;
  rmSync(mark);
  return undefined;
}

function parse(text: string): Damage | undefined {
  try {
    return JSON.parse(text) as Damage;
  } catch {
    return undefined;
  }
}

export function beginQuarantine(path: string, found: Omit<Damage, 'folder'>): Damage {
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '-');
  const base = join(dirname(path), `quarantine-${stamp}`);
  let folder = base;
  for (let n = 2; existsSync(folder); n++) folder = `${base}-${n}`;
  const damage: Damage = { ...found, folder };
  writeFileSync(markOf(path), JSON.stringify(damage), { flush: true });
  syncFolder(dirname(path));
  return damage;
}

/** Returns the path of the database in quarantine; it is an empty file when only a log was left of it. */
export function moveToQuarantine(path: string, { folder }: Damage): string {
  makeFolder(folder);
  const moved = join(folder, basename(path));
  // The database goes last: once it is there, whatever is at `path` is the new one.
  if (!existsSync(moved)) {
    for (const suffix of SUFFIXES) if (existsSync(path + suffix)) renameSync(path + suffix, moved + suffix);
    if (!existsSync(moved)) writeFileSync(moved, '');
    syncFolder(folder);
    syncFolder(dirname(path));
  }
  return moved;
}

/** A database in quarantine, if it can be opened at all; for reading only, because it is evidence. */
export function openQuarantined(path: string): Database | undefined {
  // SQLite would take away a log whose file is empty.
  if (sizeOf(path) === 0) return undefined;
  let db: Database | undefined;
  try {
    db = new SQLite(path, { readonly: true, fileMustExist: true });
    db.prepare('SELECT count(*) FROM sqlite_master').get();
    return db;
  } catch {
    db?.close();
    return undefined;
  }
}

/** Closes it, and takes away what reading has left beside it. */
export function closeQuarantined(db: Database): void {
  db.close();
  rmSync(`${db.name}-shm`, { force: true });
  if (sizeOf(`${db.name}-wal`) === 0) rmSync(`${db.name}-wal`, { force: true });
}

function sizeOf(file: string): number {
  return existsSync(file) ? statSync(file).size : 0;
}

/** Puts the finished new file in place. */
export function endQuarantine(path: string, fresh: string): void {
  if (existsSync(fresh)) renameSync(fresh, path);
  syncFolder(dirname(path));
  rmSync(markOf(path));
  syncFolder(dirname(path));
}
