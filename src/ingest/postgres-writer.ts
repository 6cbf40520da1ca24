import { assert } from '../lib/assert.js';
import type { Millis } from '../model/ids.js';
import type { Tally } from '../model/tally.js';
import type { Batch, BatchRow, GapRow, OpaqueRow, ReadingRow } from '../wire/batch.js';
import { parseTallies } from '../wire/tally.js';
import type { Outcome } from './historian.js';
import {
  ABSORB,
  INSERT_GAPS,
  INSERT_OPAQUE,
  INSERT_QUARANTINE,
  INSERT_READINGS,
  UPSERT_TALLIES,
} from './postgres-insert.js';
import type { PostgresClient } from './postgres-pool.js';
import { columnsOf, readingValue, rowValue } from './postgres-value.js';

/** What an interval in microseconds holds exactly as a double, 285 years around 1970. Times beyond are kept aside. */
const TS_MAX = Math.floor(Number.MAX_SAFE_INTEGER / 1000);

/** The rows of a batch by where they go, with the ids of their series; computed before the transaction begins. */
export interface Sorted {
  readonly batch: Batch;
  readonly now: Millis;
  readonly readings: readonly (ReadingRow & { readonly seriesId: number })[];
  readonly gaps: readonly GapRow[];
  readonly opaque: readonly OpaqueRow[];
  readonly aside: readonly { readonly row: BatchRow; readonly reason: string }[];
}

export function sortRows(
  batch: Batch,
  now: Millis,
  futureMaxMs: number,
  seriesId: (row: ReadingRow) => number | undefined,
): Sorted {
  const sorted = { readings: [], gaps: [], opaque: [], aside: [] } as {
    -readonly [K in 'readings' | 'gaps' | 'opaque' | 'aside']: Sorted[K][number][];
  };
  for (const row of batch.rows) {
    if (!isStorable(row)) sorted.aside.push({ row, reason: 'time-out-of-range' });
    else if (row.type === 'g') sorted.gaps.push(row);
    else if (row.type === 'p') sorted.opaque.push(row);
    else if (row.ts > now + futureMaxMs) sorted.aside.push({ row, reason: 'future' });
    else {
      const id = seriesId(row);
      assert(id !== undefined, 'every series has an id', { asset: row.asset, metric: row.metric });
      sorted.readings.push({ ...row, seriesId: id });
    }
  }
  return { batch, now, ...sorted };
}

/** Readings from before the floor, which may not be stored any more, are kept aside. */
export function setOldAside(sorted: Sorted, floor: number): Sorted {
  if (sorted.readings.every(({ ts }) => ts >= floor)) return sorted;
  const old = sorted.readings.filter(({ ts }) => ts < floor).map((row) => ({ row, reason: 'too-old' }));
  return {
    ...sorted,
    readings: sorted.readings.filter(({ ts }) => ts >= floor),
    aside: [...sorted.aside, ...old],
  };
}

/**
 * Writes one batch inside a transaction of the caller. Each row ends in exactly one table, or is recognised as one that is
 * there already. Tables are written in the same order by everybody, and rows in the order of their keys, so that two
 * batches that overlap wait for each other instead of for ever.
 */
export async function writeRows(client: PostgresClient, sourceId: number, sorted: Sorted): Promise<Outcome> {
  const { readings, gaps, opaque, aside, now, batch } = sorted;
  const counts = { stored: 0, duplicates: 0, conflicts: 0, gaps: 0, quarantined: 0, opaque: 0 };
  const reused: { row: BatchRow; reason: string }[] = [];
  if (readings.length > 0) {
    const columns = readingColumns(readings);
    counts.stored = await countOf(client, INSERT_READINGS, [sourceId, ...columns]);
    if (counts.stored < readings.length) counts.conflicts = await countOf(client, ABSORB, [sourceId, ...columns, now]);
  }
  for (const [kind, rows, statements, columns] of [
    ['gaps', gaps, INSERT_GAPS, gapColumns(gaps)],
    ['opaque', opaque, INSERT_OPAQUE, opaqueColumns(opaque)],
  ] as const) {
    if (rows.length === 0) continue;
    counts[kind] = await countOf(client, statements.insert, [sourceId, ...columns, now]);
    if (counts[kind] === rows.length) continue;
    const { rows: others } = await client.query<{ seq: number }>(statements.others, [sourceId, ...columns]);
    const seqs = new Set(others.map(({ seq }) => seq));
    for (const row of rows) if (seqs.has(row.seq)) reused.push({ row, reason: 'identity-reused' });
  }
  await writeTallies(client, sourceId, opaque);
  const quarantine = [...aside, ...reused];
  if (quarantine.length > 0)
    counts.quarantined = await countOf(client, INSERT_QUARANTINE, [sourceId, ...asideColumns(quarantine), now]);
  const { stored, conflicts, quarantined } = counts;
  counts.duplicates = batch.rows.length - stored - conflicts - counts.gaps - quarantined - counts.opaque;
  assert(counts.duplicates >= 0, 'every row of a batch is counted once', { ...counts, rows: batch.rows.length });
  return counts;
}

/** Of each tally the newest; in the order of the key, as everywhere. */
async function writeTallies(client: PostgresClient, sourceId: number, rows: readonly OpaqueRow[]): Promise<void> {
  const newest = new Map<string, Tally & { upTo: number }>();
  for (const row of rows) {
    const record = parseTallies(row);
    for (const tally of record?.tallies ?? [])
      newest.set(`${tally.hour}\0${tally.asset}\0${tally.metric}\0${tally.first}`, { ...tally, upTo: record!.upTo });
  }
  if (newest.size === 0) return;
  await client.query(UPSERT_TALLIES, [
    sourceId,
    ...columnsOf(
      [...newest.values()],
      ({ hour }) => hour,
      ({ asset }) => asset,
      ({ metric }) => metric,
      ({ first }) => first,
      ({ last }) => last,
      ({ count }) => count,
      ({ checksum }) => checksum,
      ({ upTo }) => upTo,
    ),
  ]);
}

function isStorable(row: BatchRow): boolean {
  const times = row.type === 'g' ? [row.ts, row.gap.from, row.gap.to] : [row.ts];
  return row.type === 'p' || times.every((ts) => Math.abs(ts) <= TS_MAX);
}

async function countOf(client: PostgresClient, sql: string, values: unknown[]): Promise<number> {
  const { rows } = await client.query<{ count: number }>(sql, values);
  return (rows[0] as { count: number }).count;
}

function readingColumns(readings: Sorted['readings']): unknown[][] {
  const values = readings.map(readingValue);
  return [
    ...columnsOf(
      readings,
      ({ seriesId }) => seriesId,
      ({ ts }) => ts,
      ({ type }) => type,
    ),
    ...valueColumns(values),
    ...columnsOf(
      readings,
      ({ quality }) => quality,
      ({ seq }) => seq,
    ),
  ];
}

function gapColumns(rows: readonly GapRow[]): unknown[][] {
  return columnsOf(
    rows,
    ({ seq }) => seq,
    ({ asset }) => asset,
    ({ metric }) => metric,
    ({ gap }) => gap.from,
    ({ gap }) => gap.to,
    ({ gap }) => gap.count ?? null,
    ({ gap }) => gap.reason,
    ({ gap }) => gap.detail ?? null,
  );
}

function opaqueColumns(rows: readonly OpaqueRow[]): unknown[][] {
  return columnsOf(
    rows,
    ({ seq }) => seq,
    ({ topic }) => topic,
    ({ ts }) => ts,
    ({ retain }) => retain,
    ({ payload }) => payload,
  );
}

function asideColumns(aside: Sorted['aside']): unknown[][] {
  return [
    ...columnsOf(
      aside,
      ({ row }) => row.seq,
      ({ reason }) => reason,
      ({ row }) => row.topic,
      ({ row }) => row.asset,
      ({ row }) => row.metric,
      ({ row }) => row.ts,
      ({ row }) => row.type,
      ({ row }) => row.quality,
    ),
    ...valueColumns(aside.map(({ row }) => rowValue(row))),
  ];
}

function valueColumns(values: readonly ReturnType<typeof readingValue>[]): unknown[][] {
  return columnsOf(
    values,
    ({ number }) => number,
    ({ whole }) => whole,
    ({ text }) => text,
    ({ bytes }) => bytes,
  );
}
