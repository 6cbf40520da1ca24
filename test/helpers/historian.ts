import { join } from 'node:path';
import type { TestContext } from 'node:test';
import Database from 'better-sqlite3';
import { SqliteHistorian, type SqliteHistorianOptions } from '../../src/ingest/sqlite-historian.js';
import type { Millis } from '../../src/model/ids.js';
import { T0 } from './rows.js';
import { tempDir } from './tmp.js';

/** A day after the readings of the helpers begin, and it stays. */
export const stoppedClock = { now: () => (T0 + 86_400_000) as Millis, mono: () => performance.now() };

export async function openHistorian(t: TestContext, options: Partial<SqliteHistorianOptions> = {}) {
  const path = options.path ?? join(tempDir(t), 'historian.db');
  const historian = await SqliteHistorian.open({ clock: stoppedClock, ...options, path });
  t.after(() => historian.close());
  return { path, historian };
}

/** Asks the file itself, over a connection of its own. */
export function ask<Row = Record<string, unknown>>(path: string, sql: string, ...params: unknown[]): Row[] {
  const db = new Database(path, { readonly: true });
  try {
    return db.prepare<unknown[], Row>(sql).all(...params);
  } finally {
    db.close();
  }
}
