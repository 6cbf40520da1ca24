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
import { dirname } from 'node:path';
import SQLite, { type Database } from 'better-sqlite3';
import { assert } from '../lib/assert.js';
import { HoldfastError } from '../lib/errors.js';
import { syncFolder } from '../lib/folder.js';
import type { Tables } from './tables.js';

/** First version without the WAL-reset corruption (3.7.0 to 3.51.2). */
const SQLITE_VERSION_MIN = [3, 51, 3] as const;
const SYNCHRONOUS_FULL = 2;
/** To set it anew would be a write, which a full device refuses. */
const INCREMENTAL = 2;
const BUSY_TIMEOUT_MS = 5_000;
const PAGE_CACHE_KIB = 16 * 1024;

/** Without this word of the last run the log must be there: `open` stands in the file itself from the first commit on. */
const OPEN = "INSERT INTO store_meta VALUES ('state', 'open') ON CONFLICT DO UPDATE SET value = 'open'";
const CLOSED = "UPDATE store_meta SET value = 'closed' WHERE key = 'state'";

export interface DatabaseOptions {
  readonly path: string;
  /** How long to wait for another process to let go of the file. */
  readonly busyTimeoutMs?: number | undefined;
}

/** The connection before anything has been read or written through it, alone on its file. */
export function connect({ path, busyTimeoutMs }: DatabaseOptions): Database {
  const db = new SQLite(path, { timeout: busyTimeoutMs ?? BUSY_TIMEOUT_MS });
  // First of all, or the first statement makes a shared-memory file, for which a full device has no room.
  db.pragma('locking_mode = EXCLUSIVE');
  // Automatic checkpoints keep their errors to themselves; see checkpoints.ts.
  db.pragma('wal_autocheckpoint = 0');
  return db;
}

/** Makes the connection a durable one. Throws `spool.not-durable`, and what SQLite throws. */
export function prepare(db: Database, { path }: DatabaseOptions): void {
  assertVersion(db);
  // Takes effect only while the file has no tables yet; lets the file shrink after a drain.
  if (db.pragma('auto_vacuum', { simple: true }) !== INCREMENTAL) db.pragma('auto_vacuum = INCREMENTAL');
  db.pragma('journal_mode = WAL');
  db.pragma('synchronous = FULL');
  db.pragma(`cache_size = -${PAGE_CACHE_KIB}`);
  db.pragma('temp_store = MEMORY');
  db.exec('CREATE TABLE IF NOT EXISTS store_meta (key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID');
  readBack(db, path);
}

/**
 * Says in the file itself that from now on there is a log beside it, and has the next commit begin that log anew. Nothing
 * may be acknowledged before this has returned. On a full device it throws SQLITE_FULL and may be called again.
 */
export function markOpen(db: Database, options: DatabaseOptions): void {
  db.exec(OPEN);
  // SQLite may have just created the log, and does not look whether the sync of its name succeeded.
  syncFolder(dirname(options.path));
  const [row] = db.pragma('wal_checkpoint(PASSIVE)') as { busy: number; log: number; checkpointed: number }[];
  assert(row?.busy === 0 && row.log === row.checkpointed, 'nobody else is in the way of a checkpoint', { ...row });
  readBack(db, options.path);
}

/** The last commit before an orderly end. */
export function markClosed(db: Database): void {
  db.exec(CLOSED);
}

/** Whether the file, its log aside, was left by a run that had one. */
export function wasOpen(db: Database): boolean {
  const table = db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'store_meta'").get();
  if (!table) return false;
  return db.prepare("SELECT value FROM store_meta WHERE key = 'state'").pluck().get() === 'open';
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
    if (version === migrations.length) return;
    for (const sql of migrations.slice(version)) db.exec(sql);
    db.prepare('INSERT OR REPLACE INTO store_meta VALUES (?, ?)').run(key, migrations.length);
  });
  step.immediate();
}
