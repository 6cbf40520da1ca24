import type { Historian } from './historian.js';
import { PostgresHistorian, type PostgresHistorianOptions } from './postgres-historian.js';
import { PostgresRecords } from './postgres-records.js';
import type { Records } from './records.js';
import { SqliteHistorian, type SqliteHistorianOptions } from './sqlite-historian.js';
import { SqliteRecords } from './sqlite-records.js';

/** Which historian, and what it needs. */
export type HistorianOptions =
  | ({ readonly type?: 'sqlite' } & SqliteHistorianOptions)
  | ({ readonly type: 'postgres' } & PostgresHistorianOptions);

/** Throws `historian.version` or `historian.io`. */
export function openHistorian(options: HistorianOptions): Promise<Historian> {
  return options.type === 'postgres' ? PostgresHistorian.open(options) : SqliteHistorian.open(options);
}

/** Opens what there is for reading. Throws `historian.version` or `historian.io`. */
export async function openRecords(options: HistorianOptions): Promise<Records> {
  return options.type === 'postgres' ? PostgresRecords.open(options.url) : SqliteRecords.open(options.path);
}
