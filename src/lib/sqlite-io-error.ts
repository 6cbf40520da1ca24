/**
 * After a failed write or fsync the kernel marks the pages clean although the disk does not hold them: it shows them to
 * every reader, later fsyncs succeed, and the next power cut takes them away (Rebello et al., "Can Applications Recover
 * from fsync Failures?", ATC 2020). So the process must stop at the first such error, and the files must come onto new
 * blocks before SQLite opens them again. A checkpoint in between would move what is sound into what is not.
 *
 * The mark is the file's name: under another one nobody takes it for sound by accident, and SQLite, which otherwise
 * checkpoints when the connection is closed or its process ends, leaves a file alone that is no longer where it was
 * (SQLITE_FCNTL_HAS_MOVED).
 */
import { closeSync, existsSync, fsyncSync, openSync, readSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import SQLite from 'better-sqlite3';
import { systemCodeOf } from './errors.js';
import { syncFolder } from './folder.js';

const CHUNK_BYTES = 1024 * 1024;
/** A second process that is started meanwhile waits so long for the first one to finish. */
const LOCK_TIMEOUT_MS = 5_000;
/**
 * Errors of writing, which only the connection that owns the file can meet. Others, of reading or of locks, do no harm to
 * what is on the disk, and a process that is refused the file must not rename it under the one that has it.
 */
const WRITE_ERROR = /^SQLITE_IOERR_(WRITE|FSYNC|DIR_FSYNC|TRUNCATE)$/;
const markedName = (path: string) => `${path}-ioerr`;

/**
 * Call at once when a statement on the database at `path` has thrown `error`, and before its connection is closed. If
 * something could not be written or synced, the file gets the mark, and nothing may be written through the connection any
 * more. Returns whether it was such an error.
 */
export function markIfIoError(path: string, error: unknown): boolean {
  if (!WRITE_ERROR.test(systemCodeOf(error) ?? '')) return false;
  try {
    renameSync(path, markedName(path));
    syncFolder(dirname(path));
  } catch {
    // A disk that does not even take this has nothing left to protect.
  }
  return true;
}

/**
 * Call before SQLite opens the file at `path`. Returns whether there was a mark; then file and log lie on new blocks and
 * have their names again, and a power cut at any point in between leaves the mark. Needs as much free space as the larger
 * of them. Throws what the file system throws.
 */
export function healAfterIoError(path: string): boolean {
  const marked = markedName(path);
  if (!existsSync(marked)) return false;
  return alone(path, () => {
    if (!existsSync(marked)) return true;
    if (existsSync(path)) throw new Error(`there are ${path} and ${marked}; only one of them can be the right one`);
    for (const file of [`${path}-wal`, marked]) if (existsSync(file)) renew(file);
    syncFolder(dirname(path));
    renameSync(marked, path);
    syncFolder(dirname(path));
    return true;
  });
}

/** Two processes that heal at the same time would take the files from under each other. */
function alone<T>(path: string, heal: () => T): T {
  const file = `${path}-healing`;
  const lock = new SQLite(file, { timeout: LOCK_TIMEOUT_MS });
  try {
    lock.exec('BEGIN EXCLUSIVE');
    return heal();
  } finally {
    rmSync(file, { force: true });
    lock.close();
  }
}

function renew(file: string): void {
  const copy = `${file}.new`;
  try {
    copyDurably(file, copy);
  } catch (error) {
    // Half a copy would only take space that the next attempt needs.
    rmSync(copy, { force: true });
    throw error;
  }
  renameSync(copy, file);
}

/** Reads and writes every byte: a copy by the file system could share the very blocks that were never written. */
function copyDurably(source: string, target: string): void {
  const from = openSync(source, 'r');
  try {
    const to = openSync(target, 'w');
    try {
      const chunk = Buffer.alloc(CHUNK_BYTES);
      for (let length = readSync(from, chunk); length > 0; length = readSync(from, chunk))
        for (let done = 0; done < length; ) done += writeSync(to, chunk, done, length - done);
      fsyncSync(to);
    } finally {
      closeSync(to);
    }
  } finally {
    closeSync(from);
  }
}
