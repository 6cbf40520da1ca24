import type { Database } from 'better-sqlite3';
import { attempt } from './salvage.js';

/** Name of the damaged database in statements of the new one. */
export const DAMAGED = 'damaged';

/**
 * Runs `work` with the damaged database attached to the new one as `damaged`, so that rows go over without leaving SQLite.
 * Returns whether that was possible; what `work` throws is thrown.
 *
 * What is in quarantine is evidence, and this connection could write to it. Nothing does: `work` only reads it, inside
 * deferred transactions (an immediate one would begin to write on every attached database); and when it is detached SQLite
 * does not move the log into the file, because `old` has the file open, too.
 */
export function withAttached(fresh: Database, old: Database, work: () => void): boolean {
  // What is attached takes on the mode of the connection, and would ask for the file alone.
  fresh.pragma('locking_mode = NORMAL');
  fresh.pragma('main.locking_mode = EXCLUSIVE');
  const attach = fresh.prepare(`ATTACH ? AS ${DAMAGED}`);
  if (!attempt(() => attach.run(old.name))) return false;
  try {
    work();
  } finally {
    fresh.exec(`DETACH ${DAMAGED}`);
  }
  return true;
}
