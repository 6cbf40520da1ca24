/**
 * Opens the file, and where it is damaged puts a new one in its place: the damaged files go to a quarantine folder, what can
 * be read of them into a new file in order, and the owners of the tables note what is missing. A gateway that does not
 * start loses everything that is published meanwhile, which is worse than what the damage took.
 *
 * Damage is judged here and only here. At run time a dying device makes SQLite say "malformed" of files that are sound; so
 * at a run-time error the process leaves a word of suspicion beside the file and ends, and the next start looks closely.
 */
import { closeSync, existsSync, fsyncSync, openSync, readSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Database } from 'better-sqlite3';
import { assert } from '../lib/assert.js';
import { HoldfastError, messageOf, systemCodeOf } from '../lib/errors.js';
import { makeFolder } from '../lib/folder.js';
import { healAfterIoError, markIfIoError } from '../lib/sqlite-io-error.js';
import { Ballast } from './ballast.js';
import { connect, type DatabaseOptions, markClosed, migrate, prepare, wasOpen } from './database.js';
import { lockedOr, lockFile } from './file-lock.js';
import { isFullError } from './full.js';
import {
  beginQuarantine,
  closeQuarantined,
  endQuarantine,
  moveToQuarantine,
  openQuarantined,
  unfinishedQuarantine,
} from './quarantine.js';
import { salvageTables } from './salvage.js';
import type { Damage, Tables } from './tables.js';
import { scanWal } from './wal-scan.js';

const MAGIC = 'SQLite format 3\0';
const DAMAGE = /^SQLITE_(CORRUPT|NOTADB)/;
/** Header of a log and one frame of 4 KiB: every run leaves at least this, because it begins with a commit. */
const LOG_BYTES_MIN = 32 + 24 + 4096;
/** Every page of a file up to this size is looked at on every start, which takes some tenths of a second. */
const CHECKED_BYTES_MAX = 64 * 1024 * 1024;
const LOCK_WAIT_MS = 5_000;

export interface Opened {
  readonly db: Database;
  /** Closing it lets another process in. */
  readonly lock: Database;
  /** Set when the file is a new one, in the place of a damaged one. */
  readonly damage: Damage | undefined;
  /** The last run ended with an I/O error, and the files have been brought onto fresh blocks. */
  readonly healed: boolean;
}

type Found = Omit<Damage, 'folder'>;

const suspicionOf = (path: string) => `${path}-suspect`;

/** To be called at a run-time error that looks like damage: the next start is to look at every page. */
export function suspect(path: string, why: string): void {
  try {
    writeFileSync(suspicionOf(path), `${why}\n`, { flush: true });
  } catch {
    // The device does not even take this; a start on it will not go well either.
  }
}

/** Throws `spool.locked`, `spool.version`, `spool.not-durable` and what SQLite and the file system throw. */
export function openSound(options: DatabaseOptions, modules: readonly Tables[]): Opened {
  const path = resolve(options.path);
  makeFolder(dirname(path));
  const lock = lockFile(path, options.busyTimeoutMs ?? LOCK_WAIT_MS);
  try {
    // Before anything looks at the files: under the mark's name nobody would find them.
    const healed = withBallast(path, () => healAfterIoError(path));
    let damage = unfinishedQuarantine(path);
    if (damage) replace(path, damage, modules);
    for (;;) {
      const found = open({ ...options, path });
      if ('db' in found) return { db: found.db, lock, damage, healed };
      if (damage) throw new HoldfastError('spool.io', `${path} is damaged although it was made anew: ${found.problem}`);
      damage = found;
      replace(path, damage, modules);
    }
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** The connection; or the damage, with the quarantine begun. */
function open(options: DatabaseOptions): { readonly db: Database } | Damage {
  const { path } = options;
  const problem = problemOfFiles(path);
  if (problem) return withBallast(path, () => beginQuarantine(path, problem));
  const hadLog = sizeOf(`${path}-wal`) >= LOG_BYTES_MIN;
  const db = connect(options);
  try {
    const problem = problemOfContent(db, path, hadLog);
    if (problem) return giveUp(db, path, problem);
    prepare(db, options);
    rmSync(suspicionOf(path), { force: true });
    return { db };
  } catch (error) {
    markIfIoError(path, error);
    if (isDamage(error)) return giveUp(db, path, { problem: messageOf(error), lostCommits: false });
    db.close();
    throw lockedOr(error, path);
  }
}

function giveUp(db: Database, path: string, found: Found): Damage {
  const damage = withBallast(path, () => beginQuarantine(path, found));
  // SQLite would write to the file on closing; it leaves a file alone that is not any more where it was.
  moveToQuarantine(path, damage);
  db.close();
  return damage;
}

/** Whether an error is SQLite's word for a damaged file. */
export function isDamage(error: unknown): boolean {
  return DAMAGE.test(systemCodeOf(error) ?? '');
}

/** What can be seen before SQLite opens the file, and would be gone afterwards. */
function problemOfFiles(path: string): Found | undefined {
  // An unfinished rollback journal is undone by SQLite itself.
  if (sizeOf(`${path}-journal`) > 0) return undefined;
  const hasFile = sizeOf(path) > 0;
  if (!hasFile) {
    const hasLog = sizeOf(`${path}-wal`) >= LOG_BYTES_MIN;
    return hasLog ? { problem: 'its log is there, but the file is empty or gone', lostCommits: true } : undefined;
  }
  const { lostFrames, hasFirstPage } = scanWal(path);
  if (startOf(path) !== MAGIC && !hasFirstPage) return { problem: 'it is not a database', lostCommits: true };
  if (lostFrames === 0) return undefined;
  return { problem: `its log is damaged, ${lostFrames} pages of later commits cannot be read`, lostCommits: true };
}

function problemOfContent(db: Database, path: string, hadLog: boolean): Found | undefined {
  if (!hadLog && wasOpen(db)) return { problem: 'its log is missing, and with it the last commits', lostCommits: true };
  const suspected = existsSync(suspicionOf(path));
  if (sizeOf(path) > CHECKED_BYTES_MAX && !suspected) return undefined;
  // The first also holds the indexes against their tables, which takes several times longer.
  const result = db.pragma(suspected ? 'integrity_check(1)' : 'quick_check(1)', { simple: true }) as string;
  return result === 'ok' ? undefined : { problem: result.replaceAll('\n', ' '), lostCommits: false };
}

/** Takes what can be read into a new file, and puts that in place. Whatever was begun before a crash begins again. */
function replace(path: string, damage: Damage, modules: readonly Tables[]): void {
  const moved = withBallast(path, () => moveToQuarantine(path, damage));
  const fresh = `${path}-fresh`;
  withBallast(path, (sparing) => rebuild(moved, fresh, damage, modules, sparing));
  sync(fresh);
  endQuarantine(path, fresh);
}

/** On a full device the work is done in the space that was kept for such a moment: then it is to be `sparing`. */
function withBallast<T>(path: string, work: (sparing: boolean) => T): T {
  try {
    return work(false);
  } catch (error) {
    if (!isFullError(error) && systemCodeOf(error) !== 'ENOSPC') throw error;
    new Ballast(path, 0).release();
    return work(true);
  }
}

function rebuild(moved: string, path: string, damage: Damage, modules: readonly Tables[], sparing: boolean): void {
  for (const suffix of ['', '-wal', '-journal']) rmSync(path + suffix, { force: true });
  const old = openQuarantined(moved);
  const fresh = connect({ path });
  try {
    prepare(fresh, { path });
    // Nothing of it counts before it is complete; then the whole file is synced once. Without a log it is written once.
    fresh.pragma('synchronous = OFF');
    fresh.pragma('journal_mode = MEMORY');
    for (const module of modules) {
      migrate(fresh, module);
      salvageTables(old, fresh, module, module.open(fresh), damage, sparing);
    }
    fresh.pragma('journal_mode = WAL');
    markClosed(fresh);
    // Closing would do the same, and keep quiet when it fails.
    const [row] = fresh.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
    assert(row?.busy === 0, 'nobody else is in the way of a checkpoint', { ...row });
  } finally {
    if (old) closeQuarantined(old);
    fresh.close();
  }
}

function sizeOf(file: string): number {
  return existsSync(file) ? statSync(file).size : 0;
}

function startOf(file: string): string {
  const fd = openSync(file, 'r');
  try {
    const start = Buffer.alloc(MAGIC.length);
    readSync(fd, start, 0, start.length, 0);
    return start.toString('latin1');
  } finally {
    closeSync(fd);
  }
}

function sync(file: string): void {
  const fd = openSync(file, 'r+');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
