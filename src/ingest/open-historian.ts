import type { Historian } from './historian.js';
import { PostgresHistorian, type PostgresHistorianOptions } from './postgres-historian.js';
import { SqliteHistorian, type SqliteHistorianOptions } from './sqlite-historian.js';

/** Which historian, and what it needs. */
export type HistorianOptions =
  | ({ readonly type?: 'sqlite' } & SqliteHistorianOptions)
  | ({ readonly type: 'postgres' } & PostgresHistorianOptions);

/** Throws `historian.version` or `historian.io`. */
export function openHistorian(options: HistorianOptions): Promise<Historian> {
  return options.type === 'postgres' ? PostgresHistorian.open(options) : SqliteHistorian.open(options);
}
