import type { Log } from '../lib/log.js';
import type { Historian } from './historian.js';
import { PostgresHistorian, type PostgresHistorianOptions } from './postgres-historian.js';
import { PostgresRecords } from './postgres-records.js';
import type { Records } from './records.js';
import { SqliteHistorian, type SqliteHistorianOptions } from './sqlite-historian.js';
import { SqliteRecords } from './sqlite-records.js';
import { WaitingHistorian } from './waiting-historian.js';

/** Which historian, and what it needs. */
export type HistorianOptions =
  | ({ readonly type?: 'sqlite' } & SqliteHistorianOptions)
  | ({ readonly type: 'postgres' } & PostgresHistorianOptions);

/** Throws `historian.version` or `historian.io`. */
export function openHistorian(options: HistorianOptions): Promise<Historian> {
  return options.type === 'postgres' ? PostgresHistorian.open(options) : SqliteHistorian.open(options);
}

/** Like `openHistorian`, for an ingest: a database that cannot be reached yet is waited for. */
export function openWaiting(options: HistorianOptions, log: Log): Promise<Historian> {
  return WaitingHistorian.open(() => openHistorian(options), log);
}

/** Opens what there is for reading. Throws `historian.version` or `historian.io`. */
export async function openRecords(options: HistorianOptions): Promise<Records> {
  return options.type === 'postgres' ? PostgresRecords.open(options) : SqliteRecords.open(options.path);
}
