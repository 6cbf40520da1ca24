/**
 * The memory of commands; this module runs in the store's thread. A command is noted here before anything is sent to a
 * device, so that a life of the program that ends in between leaves a trace, and no later life repeats it.
 */
import type { Database } from 'better-sqlite3';
import type { OpenTables, Tables } from '../store/tables.js';

/** Key, end of validity, and the outcome as JSON; null while nobody knows it. */
export type CommandRow = [key: string, validUntil: number, outcome: string | null];

const MIGRATIONS = [
  `CREATE TABLE commands (
     key         TEXT PRIMARY KEY,
     valid_until INTEGER NOT NULL,
     outcome     TEXT
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE commands_life (
     since INTEGER NOT NULL
   ) STRICT;`,
];

function open(db: Database): OpenTables {
  const since = db.prepare('SELECT since FROM commands_life').pluck();
  const begin = db.prepare('INSERT INTO commands_life SELECT ? WHERE NOT EXISTS (SELECT 1 FROM commands_life)');
  const rows = db.prepare('SELECT key, valid_until, outcome FROM commands').raw();
  const run = (sql: string) => {
    const statement = db.prepare(sql);
    return (...args: unknown[]): number => statement.run(...args).changes;
  };
  return {
    operations: {
      /** Since when the memory is complete; says it once. */
      begin: (now: number): number => begin.run(now).changes,
      put: run('INSERT OR REPLACE INTO commands VALUES (?, ?, ?)'),
      delete: run('DELETE FROM commands WHERE key = ?'),
    },
    queries: {
      since: (): number | undefined => since.get() as number | undefined,
      all: (): CommandRow[] => rows.all() as CommandRow[],
    },
    // Half a memory would pass for a whole one. What is missing from it must count as unknown, not as never begun.
    salvage() {},
  };
}

export const tables: Tables = { name: 'commands', migrations: MIGRATIONS, open };
