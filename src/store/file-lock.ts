import SQLite, { type Database } from 'better-sqlite3';
import { HoldfastError, systemCodeOf } from '../lib/errors.js';

/**
 * Makes the file at `path` this process's own until the returned connection is closed or the process ends, before anybody
 * looks at it: to judge a file that another process is writing would find damage where there is none. The lock is one of
 * SQLite's on an empty file beside it, so it needs no space and dies with its process. Throws `spool.locked`.
 */
export function lockFile(path: string, timeoutMs: number): Database {
  const lock = new SQLite(`${path}-lock`, { timeout: timeoutMs });
  try {
    // Otherwise even this transaction, which writes nothing, would have a journal on the device.
    lock.pragma('journal_mode = MEMORY');
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock.close();
    throw lockedOr(error, path);
  }
}

/** `spool.locked` when that is what SQLite means by `error`; otherwise the same error. */
export function lockedOr(error: unknown, path: string): unknown {
  if (systemCodeOf(error)?.startsWith('SQLITE_BUSY') !== true) return error;
  return new HoldfastError('spool.locked', `${path} is in use by another process`, {
    cause: error,
    hint: 'one spool file belongs to one running gateway; stop the other one or give this one its own dataDir',
  });
}
