import { assert } from '../lib/assert.js';
import type { Epoch, GatewayId, Millis, Seq } from '../model/ids.js';
import { BAD, GOOD } from '../model/reading.js';
import type { Source, SpoolRow } from '../model/row.js';
import { type Batch, type BatchRow, type DecodeLimits, type LostRange, malformed } from './batch.js';
import { batchRow, isValueType } from './batch-row.js';
import { lostRange } from './columns-decode.js';
import { pack, wireInteger } from './msgpack.js';
import { isQuality } from './quality.js';
import { floatText } from './reading.js';
import { gapOf, readingOf } from './typed.js';

/**
 * The rows format: a list of `{seq, gw, ep, topic, asset?, metric?, ts, type, q, value | payload, retain?}` for consumers
 * that cannot zip columns. In JSON bytes are base64, and a float that JSON does not know is null with quality bad. Ahead of
 * the rows there may be `{gw, ep, lost: [from, to, reason]}`: seqs that will never come.
 */

export function encodeRows(
  source: Source,
  rows: readonly SpoolRow[],
  form: 'json' | 'msgpack',
  lost: readonly LostRange[] = [],
): Buffer {
  assert(rows.length > 0 || lost.length > 0, 'a batch holds rows or lost ranges');
  const typed = rows.map(rowOf);
  const { gateway: gw, epoch: ep } = source;
  if (form === 'json') {
    const given = lost.map(({ from, to, reason }) => JSON.stringify({ gw, ep, lost: [from, to, reason] }));
    return Buffer.from(`[${[...given, ...typed.map((row) => rowJson(source, row, 'null'))].join(',')}]`);
  }
  return pack([
    ...lost.map(({ from, to, reason }) => ({ gw, ep, lost: [wireInteger(from), wireInteger(to), reason] })),
    ...typed.map((row) => ({ ...head(source, row), ...body(row) })),
  ]);
}

/** One row as a line of JSON; integers are written out in full. `text` keeps NaN and the infinities as strings. */
export function rowJson(source: Source, row: BatchRow, nonFinite: 'null' | 'text'): string {
  let shown = row;
  let body: string;
  if (row.type === 'p') body = `"payload":${base64(row.payload)}`;
  else if (row.type === 'g') body = `"value":${JSON.stringify(row.gap)}`;
  else if (typeof row.value === 'bigint') body = `"value":${row.value}`;
  else if (row.value instanceof Uint8Array) body = `"value":${base64(row.value)}`;
  else if (row.type === 'f' && typeof row.value === 'number') {
    const asNull = nonFinite === 'null' && !Number.isFinite(row.value);
    body = asNull ? '"value":null' : `"value":${floatText(row.value)}`;
    if (asNull && (row.quality & GOOD) !== BAD) shown = { ...row, quality: BAD };
  } else body = `"value":${JSON.stringify(row.value)}`;
  const head = {
    seq: shown.seq,
    gw: source.gateway,
    ep: source.epoch,
    topic: shown.topic,
    ...identity(shown),
    ts: shown.ts,
    type: shown.type,
    q: shown.quality,
    ...(shown.retain && { retain: true }),
  };
  return `${JSON.stringify(head).slice(0, -1)},${body}}`;
}

/** Rows that msgpack or JSON gave, as a batch; all of one gateway and epoch, rising by seq. */
export function decodeRows(value: unknown, form: 'json' | 'msgpack', limits: DecodeLimits): Batch {
  if (!Array.isArray(value) || value.length === 0) throw malformed('it is no list of rows');
  if (value.length > limits.rowsMax) throw malformed(`more than ${limits.rowsMax} rows`, { rows: value.length });
  const { gw, ep } = (value[0] ?? {}) as Record<string, unknown>;
  if (typeof gw !== 'string' || gw === '' || typeof ep !== 'string' || ep === '')
    throw malformed('the first row names no gateway and epoch');
  let previous = 0;
  const rows: BatchRow[] = [];
  const lost: LostRange[] = [];
  for (const [n, row] of (value as unknown[]).entries()) {
    if (typeof row !== 'object' || row === null) throw malformed(`row ${n} is no map`);
    const record = row as Record<string, unknown>;
    if (record.gw !== gw || record.ep !== ep) throw malformed(`row ${n} is of another gateway or epoch`);
    if (record.lost !== undefined) lost.push(lostRange(record.lost));
    else {
      const decoded = decodeRow(record, n, form);
      if (decoded.seq <= previous) throw malformed(`the seq of row ${n} does not rise`, { row: n });
      previous = decoded.seq;
      rows.push(decoded);
    }
  }
  const source = { gateway: gw as GatewayId, epoch: ep as Epoch };
  const first = rows[0]?.seq ?? (Math.min(...lost.map(({ from }) => from)) as Seq);
  const last = rows.at(-1)?.seq ?? (Math.max(...lost.map(({ to }) => to)) as Seq);
  return { source, first, last, rows, lost, hist: false };
}

function decodeRow(row: Record<string, unknown>, n: number, form: 'json' | 'msgpack'): BatchRow {
  const { seq, topic, asset = null, metric = null, ts, type, q = GOOD, retain = false, ...rest } = row;
  if (!Number.isSafeInteger(seq) || (seq as number) < 1) throw malformed(`row ${n} has no seq`);
  if (typeof topic !== 'string' || topic === '') throw malformed(`row ${n} has no topic`);
  if (asset !== null && typeof asset !== 'string') throw malformed(`row ${n} has no usable asset`);
  if (metric !== null && typeof metric !== 'string') throw malformed(`row ${n} has no usable metric`);
  if (!Number.isSafeInteger(ts)) throw malformed(`row ${n} has no time`);
  if (!isValueType(type)) throw malformed(`row ${n} has an unknown type`, { type });
  if (!isQuality(q)) throw malformed(`row ${n} has no usable quality`);
  if (typeof retain !== 'boolean') throw malformed(`row ${n} has no usable retain flag`);
  let value = type === 'p' ? rest.payload : rest.value;
  if (form === 'json' && (type === 'p' || type === 'x') && typeof value === 'string')
    value = Buffer.from(value, 'base64');
  return batchRow({ seq: seq as Seq, topic, type, asset, metric, ts: ts as Millis, value, quality: q, retain });
}

function rowOf(row: SpoolRow): BatchRow {
  const { seq, topic, asset, metric, retain } = row;
  const reading = readingOf(row);
  if (reading) return { seq, topic, asset: asset as string, metric: metric as string, retain, ...reading };
  const gap = gapOf(row);
  const ts = row.deviceTs ?? row.enqueuedAt;
  if (gap) return { seq, topic, type: 'g', asset: asset as string, metric, ts, gap, quality: GOOD, retain };
  return { seq, topic, type: 'p', asset: null, metric: null, ts, payload: row.payload, quality: GOOD, retain };
}

function head(source: Source, row: BatchRow): Record<string, unknown> {
  return {
    seq: wireInteger(row.seq),
    gw: source.gateway,
    ep: source.epoch,
    topic: row.topic,
    ...identity(row),
    ts: wireInteger(row.ts),
    type: row.type,
    q: row.quality,
    ...(row.retain && { retain: true }),
  };
}

function body(row: BatchRow): Record<string, unknown> {
  if (row.type === 'p') return { payload: row.payload };
  if (row.type === 'g') return { value: { ...row.gap, from: wireInteger(row.gap.from), to: wireInteger(row.gap.to) } };
  return { value: row.type === 'i' && typeof row.value === 'number' ? wireInteger(row.value) : row.value };
}

function identity({ asset, metric }: BatchRow): { asset?: string; metric?: string } {
  return { ...(asset !== null && { asset }), ...(metric !== null && { metric }) };
}

function base64(bytes: Uint8Array): string {
  return `"${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')}"`;
}
