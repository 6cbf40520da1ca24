import { HoldfastError } from '../lib/errors.js';
import type { Epoch, GatewayId, Millis, Seq } from '../model/ids.js';
import { GOOD, type Quality, type ValueType } from '../model/reading.js';
import { isUnit } from '../model/unit.js';
import {
  BATCH_VERSION,
  type Batch,
  type BatchRow,
  type DecodeLimits,
  type LostRange,
  malformed,
  type SeriesUnit,
} from './batch.js';
import { batchRow, isValueType } from './batch-row.js';
import { isQuality } from './quality.js';

/** The strict reader of the columns format. Nothing is guessed: a batch is understood as a whole or refused as a whole. */

interface Series {
  readonly topic: string;
  readonly type: ValueType;
  readonly asset: string | null;
  readonly metric: string | null;
}
type Envelope = Readonly<Record<string, unknown>>;

export function decodeColumns(value: unknown, limits: DecodeLimits): Batch {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw malformed('it is no map');
  const envelope = value as Envelope;
  checkVersion(envelope.v);
  const source = { gateway: name(envelope, 'gw') as GatewayId, epoch: name(envelope, 'ep') as Epoch };
  const first = seqAt(envelope.f, 'f');
  const last = seqAt(envelope.l, 'l');
  const count = envelope.n;
  if (!Number.isSafeInteger(count) || (count as number) < 0) throw malformed('n is no count');
  if ((count as number) > limits.rowsMax)
    throw malformed(`more than ${limits.rowsMax} rows`, { rows: count, rowsMax: limits.rowsMax });
  const series = array(envelope, 'k').map(seriesAt);
  const rows = decodeRows(envelope, series, count as number, first, last);
  const units = unitsOf(optionalArray(envelope, 'u'), series);
  const lost = optionalArray(envelope, 'lost').map(lostRange);
  if (rows.length === 0 && lost.length === 0) throw malformed('neither rows nor lost ranges');
  if (envelope.hist !== undefined && typeof envelope.hist !== 'boolean') throw malformed('hist is no boolean');
  return {
    source,
    first,
    last,
    rows,
    lost,
    hist: envelope.hist === true,
    ...(envelope.ack === true && { ack: true }),
    ...(units.length > 0 && { units }),
  };
}

export function checkVersion(version: unknown): void {
  if (version === BATCH_VERSION) return;
  if (!Number.isSafeInteger(version)) throw malformed('v is no format version');
  throw new HoldfastError('wire.version', `The batch has format ${version}; this program reads ${BATCH_VERSION}`, {
    values: { version, known: BATCH_VERSION },
    hint: 'Update this program, then hand the kept bytes to it again.',
  });
}

function decodeRows(envelope: Envelope, series: readonly Series[], count: number, first: Seq, last: Seq): BatchRow[] {
  const indices = column(envelope, 'i', count);
  const steps = column(envelope, 't', count);
  const values = column(envelope, 'x', count);
  const seqSteps = envelope.s === undefined ? undefined : column(envelope, 's', count);
  const qualities = changes(optionalArray(envelope, 'q'), count);
  const retained = new Set(optionalArray(envelope, 'rt'));
  for (const row of retained)
    if (!Number.isInteger(row) || (row as number) < 0 || (row as number) >= count) throw malformed('rt names no row');
  let ts = envelope.t0;
  if (!Number.isSafeInteger(ts)) throw malformed('t0 is no time');
  let seq = first - 1;
  let quality: Quality = GOOD;
  const rows = new Array<BatchRow>(count);
  for (let n = 0; n < count; n++) {
    const key = series[indices[n] as number];
    if (key === undefined) throw malformed(`row ${n} has no series`, { row: n, index: indices[n] });
    if (!Number.isSafeInteger(steps[n])) throw malformed(`row ${n} has no time`, { row: n });
    ts = (ts as number) + (steps[n] as number);
    if (!Number.isSafeInteger(ts)) throw malformed(`row ${n} has no time`, { row: n });
    const step = seqSteps === undefined ? 1 : seqSteps[n];
    if (!Number.isSafeInteger(step) || (step as number) < 1)
      throw malformed(`the seq of row ${n} does not rise`, { row: n });
    seq += step as number;
    quality = qualities.get(n) ?? quality;
    const { topic, type, asset, metric } = key;
    rows[n] = batchRow({
      seq: seq as Seq,
      topic,
      type,
      asset,
      metric,
      ts: ts as Millis,
      value: values[n],
      quality,
      retain: retained.has(n),
    });
  }
  if (count > 0 && (rows[0]?.seq !== first || seq !== last))
    throw malformed('f and l disagree with the rows', { first, last, rowsFirst: rows[0]?.seq, rowsLast: seq });
  if (first > last) throw malformed('f is beyond l', { first, last });
  return rows;
}

function seriesAt(entry: unknown, index: number): Series {
  if (!Array.isArray(entry)) throw malformed(`series ${index} is no list`);
  const [topic, type, asset = null, metric = null] = entry;
  if (typeof topic !== 'string' || topic === '') throw malformed(`series ${index} has no topic`);
  if (!isValueType(type)) throw malformed(`series ${index} has an unknown type`, { type });
  if (asset !== null && typeof asset !== 'string') throw malformed(`series ${index} has no usable asset`);
  if (metric !== null && typeof metric !== 'string') throw malformed(`series ${index} has no usable metric`);
  return { topic, type, asset, metric };
}

/** `[series, unit, series, unit, …]`, series rising, so there are never more units than series. */
function unitsOf(pairs: readonly unknown[], series: readonly Series[]): SeriesUnit[] {
  const units: SeriesUnit[] = [];
  let previous = -1;
  for (let n = 0; n < pairs.length; n += 2) {
    const index = pairs[n];
    const unit = pairs[n + 1];
    if (!Number.isInteger(index) || (index as number) <= previous) throw malformed('u names no series');
    previous = index as number;
    const { type, asset, metric } = series[previous] ?? {};
    if (type === 'p' || type === 'g' || typeof asset !== 'string' || typeof metric !== 'string')
      throw malformed('u names no series of readings', { series: previous });
    if (!isUnit(unit)) throw malformed('u holds no unit', { series: previous });
    units.push({ asset, metric, unit });
  }
  return units;
}

/** `[row, quality, row, quality, …]`, rows rising. */
function changes(pairs: readonly unknown[], count: number): Map<number, Quality> {
  const at = new Map<number, Quality>();
  let previous = -1;
  for (let n = 0; n < pairs.length; n += 2) {
    const row = pairs[n];
    const quality = pairs[n + 1];
    if (!Number.isInteger(row) || (row as number) <= previous || (row as number) >= count)
      throw malformed('q names no row');
    if (!isQuality(quality)) throw malformed('q holds no quality', { row });
    previous = row as number;
    at.set(previous, quality);
  }
  return at;
}

/** `[from, to, reason]`. Throws `wire.malformed`. */
export function lostRange(entry: unknown): LostRange {
  if (!Array.isArray(entry) || typeof entry[2] !== 'string') throw malformed('lost holds no range');
  const range = { from: seqAt(entry[0], 'lost'), to: seqAt(entry[1], 'lost'), reason: entry[2] };
  if (range.from > range.to) throw malformed('a lost range ends before it begins', { ...range });
  return range;
}

function seqAt(value: unknown, what: string): Seq {
  if (!Number.isSafeInteger(value) || (value as number) < 1) throw malformed(`${what} is no seq`);
  return value as Seq;
}

function name(envelope: Envelope, key: string): string {
  const value = envelope[key];
  if (typeof value !== 'string' || value === '') throw malformed(`${key} is no name`);
  return value;
}

function array(envelope: Envelope, key: string): readonly unknown[] {
  const value = envelope[key];
  if (!Array.isArray(value)) throw malformed(`${key} is no list`);
  return value;
}

function optionalArray(envelope: Envelope, key: string): readonly unknown[] {
  return envelope[key] === undefined || envelope[key] === null ? [] : array(envelope, key);
}

function column(envelope: Envelope, key: string, count: number): readonly unknown[] {
  const value = array(envelope, key);
  if (value.length !== count)
    throw malformed(`${key} has ${value.length} rows, not ${count}`, { [key]: value.length, n: count });
  return value;
}
