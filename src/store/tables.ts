import type { Database } from 'better-sqlite3';

/** What passes between the threads: the types SQLite knows. A boolean is 0 or 1. */
export type Value = null | number | bigint | string | Uint8Array;

/**
 * An operation runs inside a group's transaction, in the store's thread. It may return one number (rows changed, a new
 * rowid); as a guard (see `Op`), returning 0 skips the rest of its unit. It must be repeatable: after a rollback the same
 * unit runs again on its own.
 */
export type Operation = (...args: never[]) => number | undefined;

/** What was wrong with a file, and the folder in which it is kept. */
export interface Damage {
  readonly problem: string;
  readonly folder: string;
  /** The newest commits are gone, nobody knows how many; otherwise rows in between are. */
  readonly lostCommits: boolean;
}

/** A read, answered in the order of the commits around it. */
export type Query = (...args: never[]) => unknown;

/** The statements of one owner of tables, over the one connection. */
export interface OpenTables {
  readonly operations: Readonly<Record<string, Operation>>;
  readonly queries: Readonly<Record<string, Query>>;
  /** Called before every COMMIT: the place for totals that must agree with the rows. */
  beforeCommit?(): void;
  /** Called after every COMMIT: what is in memory is in the file now. */
  afterCommit?(): void;
  /** Called after every ROLLBACK: what is kept in memory must be read again. */
  afterRollback?(): void;
  /**
   * Fills these new, empty tables from what can be read of a damaged file; `old` is undefined when nothing can. Without
   * it every readable row is copied as it is. `sparing`: the device is full, and what can be brought over later has to wait.
   */
  salvage?(old: Database | undefined, damage: Damage, sparing: boolean): void;
  /** Numbers that travel back with every answer, so that looking at them costs no query. */
  gauges?(): Readonly<Record<string, number>>;
}

/**
 * A module that owns tables exports `tables: Tables`. The store loads it by URL in its own thread, so the owner's SQL runs
 * next to the connection while the store knows nothing of what is in it.
 */
export interface Tables {
  /** Prefix of its operations: `spool.insert`. */
  readonly name: string;
  /** Schema steps, oldest first; step n brings version n-1 to n. Never edited once released, only added to. */
  readonly migrations: readonly string[];
  open(db: Database): OpenTables;
}

/** One call of an operation. `op` is a number from `Store.operation`. */
export interface Op {
  readonly op: number;
  readonly args: readonly Value[];
  /** When this operation returns 0, the operations after it in the same unit are skipped. */
  readonly guard?: boolean;
}

/** Operations that become durable together or not at all. */
export type Unit = readonly Op[];
