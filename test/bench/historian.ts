/**
 * Rows a second into the historians, beside a raw COPY of the same rows into a table of the same form, and how long it takes
 * to reconcile a day of ten million readings.
 */
import { execFileSync } from 'node:child_process';

import { join } from 'node:path';
import type { Historian } from '../../src/ingest/historian.js';
import { type HistorianOptions, openRecords } from '../../src/ingest/open-historian.js';
import { PostgresHistorian } from '../../src/ingest/postgres-historian.js';
import { reconcile } from '../../src/ingest/reconcile.js';
import { SqliteHistorian } from '../../src/ingest/sqlite-historian.js';
import type { Epoch, GatewayId, Millis, Seq } from '../../src/model/ids.js';
import type { Batch, ReadingRow } from '../../src/wire/batch.js';
import { DAY_START, fillPostgres, fillSqlite } from './day.js';
import { scratch } from './peers.js';
import { openPostgres, sql } from './postgres.js';

const SERIES = 500;
const GATEWAYS = 4;
const ROWS = 200_000;
const BATCHES = [500, 5_000];
/** Batches of one gateway that are on their way at the same time, as the broker's receive maximum allows. */
const IN_HAND = 16;

export interface InsertResult {
  readonly store: string;
  readonly batchRows: number;
  readonly rowsPerSecond: number;
  readonly copyPerSecond: number | null;
}

export interface ReconcileResult {
  readonly store: string;
  readonly rows: number;
  readonly seconds: number;
  readonly incomplete: number;
}

/** Gateways send their rows in the order of time, a reading of each of their series a second. */
function batchesOf(gateway: number, batchRows: number): Batch[] {
  const own = SERIES / GATEWAYS;
  const rows = Array.from({ length: ROWS / GATEWAYS }, (_, n): ReadingRow => {
    const series = n % own;
    const [asset, metric] = [`asset-${gateway}-${Math.floor(series / 10)}`, `tag_${series % 10}`];
    const ts = (DAY_START + Math.floor(n / own) * 1000) as Millis;
    const value = 20 + Math.sin(n / 97) * 5;
    return {
      seq: (n + 1) as Seq,
      topic: `plant/${asset}/${metric}`,
      asset,
      metric,
      ts,
      type: 'f',
      value,
      quality: 192,
      retain: false,
    };
  });
  const source = { gateway: `bench-${gateway}` as GatewayId, epoch: 'e1' as Epoch };
  const batches: Batch[] = [];
  for (let at = 0; at < rows.length; at += batchRows) {
    const part = rows.slice(at, at + batchRows);
    batches.push({ source, first: part[0]!.seq, last: part.at(-1)!.seq, rows: part, lost: [], hist: false });
  }
  return batches;
}

async function rate(historian: Historian, batchRows: number): Promise<number> {
  const queues = Array.from({ length: GATEWAYS }, (_, gateway) => batchesOf(gateway, batchRows));
  const startedAt = performance.now();
  await Promise.all(
    queues.map(async (queue) => {
      const running = new Set<Promise<unknown>>();
      for (const batch of queue) {
        const one = historian.ingest(batch).finally(() => running.delete(one));
        running.add(one);
        if (running.size >= IN_HAND) await Promise.race(running);
      }
      await Promise.all(running);
    }),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  if (historian.totals().stored !== ROWS) throw new Error(`stored ${historian.totals().stored} of ${ROWS}`);
  return Math.round(ROWS / seconds);
}

/** The bound: one COPY of what the historian has stored, into a table of the same form that checks nothing of it. */
async function copyRate(url: string, file: string): Promise<number> {
  const psql = (command: string) => execFileSync('psql', [url, '-qc', command]);
  psql(`\\copy holdfast.readings TO '${file}'`);
  psql('CREATE TABLE copied (LIKE holdfast.readings INCLUDING ALL)');
  const startedAt = performance.now();
  psql(`\\copy copied FROM '${file}'`);
  return Math.round(ROWS / ((performance.now() - startedAt) / 1000));
}

export async function insertBench(note: (text: string) => void): Promise<InsertResult[]> {
  const results: InsertResult[] = [];
  for (const batchRows of BATCHES) {
    note(`SQLite, ${batchRows} rows a batch`);
    const { dir, remove } = scratch();
    const historian = await SqliteHistorian.open({ path: join(dir, 'historian.db') });
    results.push({ store: 'SQLite', batchRows, rowsPerSecond: await rate(historian, batchRows), copyPerSecond: null });
    await historian.close();
    remove();
  }
  for (const batchRows of BATCHES) {
    note(`PostgreSQL, ${batchRows} rows a batch`);
    const postgres = await openPostgres();
    if (!postgres) break;
    const { dir, remove } = scratch();
    const historian = await PostgresHistorian.open({ url: postgres.url });
    const rowsPerSecond = await rate(historian, batchRows);
    await historian.close();
    const copyPerSecond = await copyRate(postgres.url, join(dir, 'rows'));
    results.push({ store: 'PostgreSQL', batchRows, rowsPerSecond, copyPerSecond });
    await postgres.stop();
    remove();
  }
  return results;
}

export async function reconcileBench(note: (text: string) => void): Promise<ReconcileResult[]> {
  const results: ReconcileResult[] = [];
  note('reconcile of a day, SQLite');
  const { dir, remove } = scratch();
  const path = join(dir, 'historian.db');
  await (await SqliteHistorian.open({ path })).close();
  results.push(await day('SQLite', { path }, fillSqlite(path)));
  remove();
  note('reconcile of a day, PostgreSQL');
  const postgres = await openPostgres();
  if (postgres) {
    const { url } = postgres;
    await (await PostgresHistorian.open({ url })).close();
    results.push(await day('PostgreSQL', { type: 'postgres', url }, await fillPostgres((text) => sql(url, text))));
    await postgres.stop();
  }
  return results;
}

async function day(store: string, options: HistorianOptions, rows: number): Promise<ReconcileResult> {
  const records = await openRecords(options);
  const window = { from: DAY_START as Millis, to: (DAY_START + 86_400_000) as Millis };
  const startedAt = performance.now();
  let incomplete = 0;
  for await (const { verdict } of reconcile(records, window)) if (verdict !== 'complete') incomplete++;
  const seconds = Math.round((performance.now() - startedAt) / 100) / 10;
  await records.close();
  return { store, rows, seconds, incomplete };
}
