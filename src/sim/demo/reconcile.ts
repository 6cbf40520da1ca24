/**
 * Compares what the PLC served with what the historian holds, value by value. It reads the truth file, the historian's view
 * and the spool's table, and shares no code with what carried the readings from one to the other.
 */
import { readFileSync } from 'node:fs';
import SQLite from 'better-sqlite3';
import { LINE_ASSETS, LINE_TAGS } from '../line-tags.js';
import type { TruthRecord } from '../truth-log.js';

export interface AssetResult {
  readonly asset: string;
  /** Values that the PLC handed out. */
  readonly produced: number;
  /** Of these, those that are neither stored nor still in the spool. */
  readonly lost: number;
  readonly spooled: number;
  readonly delivered: number;
  readonly stored: number;
  /** Readings that came again after a cut and changed nothing. */
  readonly duplicates: number;
  /** Stored values that the PLC never served. */
  readonly foreign: number;
}

export interface Reconciliation {
  readonly assets: readonly AssetResult[];
  readonly gaps: number;
}

export interface Witnesses {
  readonly truthFile: string;
  readonly historianFile: string;
  readonly spoolFile: string;
}

const BOOLEANS = new Set(LINE_TAGS.filter(({ type }) => type === 'bool').map(({ name }) => name as string));

export function reconcile({ truthFile, historianFile, spoolFile }: Witnesses): Reconciliation {
  const served = group(readTruth(truthFile));
  const historian = new SQLite(historianFile, { readonly: true });
  const spool = new SQLite(spoolFile, { readonly: true });
  try {
    const stored = group(readHistorian(historian));
    const waiting = group(readSpool(spool));
    const repeated = historian.prepare('SELECT ifnull(sum(duplicates), 0) FROM series WHERE asset_id = ?').pluck();
    const assets = LINE_ASSETS.map((asset) => {
      const duplicates = repeated.get(asset) as number;
      const result = { asset, produced: 0, lost: 0, spooled: 0, delivered: 0, stored: 0, duplicates, foreign: 0 };
      for (const { name } of LINE_TAGS.filter((tag) => tag.asset === asset)) {
        const key = `${asset}/${name}`;
        const truth = served.get(key) ?? [];
        const kept = stored.get(key) ?? [];
        const left = waiting.get(key) ?? [];
        const { missing, foreign } = compare(truth, [...kept, ...left]);
        result.produced += truth.length;
        result.spooled += kept.length + left.length;
        result.delivered += kept.length;
        result.stored += kept.length;
        result.lost += missing;
        result.foreign += foreign;
      }
      return result;
    });
    return { assets, gaps: historian.prepare('SELECT count(*) FROM gaps').pluck().get() as number };
  } finally {
    historian.close();
    spool.close();
  }
}

/** Both in the order of time: what of `truth` is not in `found`, and what of `found` is not in `truth`. */
export function compare(truth: readonly string[], found: readonly string[]): { missing: number; foreign: number } {
  let matched = 0;
  let at = 0;
  for (const value of found) {
    const next = truth.indexOf(value, at);
    if (next < 0) continue;
    matched++;
    at = next + 1;
  }
  return { missing: truth.length - matched, foreign: found.length - matched };
}

type Value = readonly [key: string, value: string];

function group(values: Iterable<Value>): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const [key, value] of values) {
    const list = groups.get(key);
    if (list) list.push(value);
    else groups.set(key, [value]);
  }
  return groups;
}

function* readTruth(file: string): Generator<Value> {
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    if (line === '') continue;
    const { asset, metric, value } = JSON.parse(line) as TruthRecord;
    yield [`${asset}/${metric}`, String(value)];
  }
}

function* readHistorian(db: SQLite.Database): Generator<Value> {
  const rows = db
    .prepare(
      'SELECT asset_id, metric_name, value, quality FROM readings_view WHERE value IS NOT NULL ORDER BY device_ts',
    )
    .safeIntegers()
    .raw()
    .iterate();
  for (const [asset, metric, value] of rows as Iterable<[string, string, bigint | number | string, bigint]>) {
    yield [`${asset}/${metric}`, BOOLEANS.has(metric) ? String(value !== 0n) : String(value)];
  }
}

function* readSpool(db: SQLite.Database): Generator<Value> {
  const rows = db
    .prepare('SELECT asset_id, metric_name, payload FROM spool WHERE metric_name IS NOT NULL ORDER BY seq')
    .raw();
  for (const [asset, metric, payload] of rows.iterate() as Iterable<[string, string, Buffer]>) {
    const text = payload.toString();
    // An integer beyond 2⁵³ is taken from the text: JSON.parse would round it.
    const [, integer] = /"value":\s*(-?\d+)\s*[,}]/.exec(text) ?? [];
    yield [`${asset}/${metric}`, integer ?? String((JSON.parse(text) as { value: unknown }).value)];
  }
}
