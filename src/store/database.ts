/**
 * Opens the one SQLite file. The durability promise rests on three settings, so each is set and then read back, and the
 * process does not start without them: `journal_mode=WAL`, `synchronous=FULL` (every commit is on the device before it
 * returns, https://www.sqlite.org/pragma.html#pragma_synchronous), and a SQLite that has the WAL-reset fix.
 *
 * `synchronous` is read back after the first write: this build of SQLite falls to NORMAL when a database enters WAL mode
 * and nothing was said, and only a write shows which setting holds. `locking_mode=EXCLUSIVE` makes the file ours alone: a
 * second process is refused instead of becoming a second writer, and no shared-memory file is needed, so the file opens on
 * a full disk too.
 */
import { dirname, resolve } from 'node:path';
import SQLite, { type Database } from 'better-sqlite3';
import { HoldfastError, systemCodeOf } from '../lib/errors.js';
import { makeFolder, syncFolder } from '../lib/folder.js';
import { healAfterIoError, markIfIoError } from '../lib/sqlite-io-error.js';
import type { Tables } from './tables.js';

/** First version without the WAL-reset corruption (3.7.0 to 3.51.2). */
const SQLITE_VERSION_MIN = [3, 51, 3] as const;
const SYNCHRONOUS_FULL = 2;
const BUSY_TIMEOUT_MS = 5_000;
const PAGE_CACHE_KIB = 16 * 1024;

export interface DatabaseOptions {
  readonly path: string;
  /** How long to wait for another process to let go of the file. */
  readonly busyTimeoutMs?: number;
  /** Called when an earlier run had ended with an I/O error, and the files have been brought onto fresh blocks. */
  readonly onHealed?: () => void;
}

export function openDatabase(options: DatabaseOptions): Database {
  const path = resolve(options.path);
  makeFolder(dirname(path));
  if (healAfterIoError(path)) options.onHealed?.();
  const db = new SQLite(path, { timeout: options.busyTimeoutMs ?? BUSY_TIMEOUT_MS });
  try {
    assertVersion(db);
    db.pragma('locking_mode = EXCLUSIVE');
    // Automatic checkpoints keep their errors to themselves; see checkpoints.ts.
    db.pragma('wal_autocheckpoint = 0');
    // Takes effect only while the file has no tables yet; lets the file shrink after a drain.
    db.pragma('auto_vacuum = INCREMENTAL');
    db.pragma('journal_mode = WAL');
    db.pragma('synchronous = FULL');
    db.pragma(`cache_size = -${PAGE_CACHE_KIB}`);
    db.pragma('temp_store = MEMORY');
    db.exec('CREATE TABLE IF NOT EXISTS store_meta (key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID');
    db.exec("INSERT INTO store_meta VALUES ('opened', 1) ON CONFLICT DO UPDATE SET value = value + 1");
    readBack(db, path);
    // SQLite has just created the log, and does not look whether the sync of its name succeeded.
    syncFolder(dirname(path));
    return db;
  } catch (error) {
    markIfIoError(path, error);
    db.close();
    throw explain(error, path);
  }
}

function assertVersion(db: Database): void {
  const version = db.prepare('SELECT sqlite_version()').pluck().get() as string;
  const parts = version.split('.').map(Number);
  const at = SQLITE_VERSION_MIN.findIndex((want, i) => parts[i] !== want);
  if (at >= 0 && (parts[at] ?? 0) < (SQLITE_VERSION_MIN[at] as number)) {
    throw new HoldfastError(
      'spool.not-durable',
      `SQLite ${version} can corrupt a write-ahead log; 3.51.3 or newer is needed`,
    );
  }
}

function readBack(db: Database, path: string): void {
  const mode = db.pragma('journal_mode', { simple: true });
  const synchronous = db.pragma('synchronous', { simple: true });
  if (mode !== 'wal' || synchronous !== SYNCHRONOUS_FULL) {
    throw new HoldfastError('spool.not-durable', `${path} did not take the durable settings`, {
      values: { journal_mode: mode, synchronous },
      hint: 'put the spool on a local file system that supports write-ahead logging',
    });
  }
}

function explain(error: unknown, path: string): unknown {
  if (systemCodeOf(error)?.startsWith('SQLITE_BUSY')) {
    return new HoldfastError('spool.locked', `${path} is in use by another process`, {
      cause: error,
      hint: 'one spool file belongs to one running gateway; stop the other one or give this one its own dataDir',
    });
  }
  return error;
}

/** Brings the tables of one owner to the newest version, all steps in one transaction. */
export function migrate(db: Database, { name, migrations }: Tables): void {
  const key = `schema.${name}`;
  const step = db.transaction(() => {
    const row = db.prepare('SELECT value FROM store_meta WHERE key = ?').pluck();
    const version = (row.get(key) as number | undefined) ?? 0;
    if (version > migrations.length) {
      throw new HoldfastError(
        'spool.version',
        `the ${name} tables have version ${version}; this program knows ${migrations.length}`,
        {
          hint: 'start the newer version of the program that wrote this file',
        },
      );
    }
    for (const sql of migrations.slice(version)) db.exec(sql);
    db.prepare('INSERT OR REPLACE INTO store_meta VALUES (?, ?)').run(key, migrations.length);
  });
  step.immediate();
}
