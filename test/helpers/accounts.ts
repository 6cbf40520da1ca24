import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import SQLite from 'better-sqlite3';
import { takeSnapshot } from '../../src/store/snapshot.js';

interface Accounts {
  readonly received: number;
  readonly rows: number;
  readonly acknowledged: number;
  readonly dropped: number;
  readonly dead: number;
  readonly countedRows: number;
  readonly countedDead: number;
}

const ACCOUNTS = `
  SELECT received, rows, acknowledged, dropped, dead,
    (SELECT count(*) FROM spool) AS countedRows, (SELECT count(*) FROM dead_letters) AS countedDead
  FROM spool_state`;

/**
 * Every spool below `dir` adds up, whichever process has written it or still does, and however that ended. What a test has
 * damaged, or moved to quarantine, is left out: it cannot be asked.
 */
export async function assertAccounts(dir: string): Promise<void> {
  for (const name of readdirSync(dir, { recursive: true }) as string[]) {
    if (!name.endsWith('spool.db') || name.includes('quarantine-')) continue;
    const found = await accountsOf(join(dir, name));
    if (!found) continue;
    const { received, rows, acknowledged, dropped, dead, countedRows, countedDead } = found;
    const said = JSON.stringify(found);
    assert.equal(received, rows + acknowledged + dropped + dead, `${name} adds up when the test ends: ${said}`);
    assert.deepEqual([rows, dead], [countedRows, countedDead], `${name} holds what its totals say: ${said}`);
  }
}

async function accountsOf(path: string): Promise<Accounts | undefined> {
  let db: SQLite.Database | undefined;
  try {
    const snapshot = await takeSnapshot(path);
    try {
      db = new SQLite(snapshot.path);
      return db.prepare(ACCOUNTS).get() as Accounts | undefined;
    } finally {
      db?.close();
      snapshot.remove();
    }
  } catch {
    return undefined;
  }
}
