import { assert } from '../lib/assert.js';
import type { Seq } from '../model/ids.js';
import { GOOD, type Quality, type ValueType } from '../model/reading.js';
import type { Source, SpoolRow } from '../model/row.js';
import type { Units } from '../model/unit.js';
import { BATCH_VERSION, type LostRange } from './batch.js';
import { pack, wireInteger } from './msgpack.js';
import { gapOf, readingOf } from './typed.js';

/** The columns format of one batch; the decoder's counterpart is columns-decode.ts. */

export interface BatchExtra {
  readonly lost?: readonly LostRange[];
  /** Sent late: older than the live horizon when it leaves. */
  readonly hist?: boolean;
  /** Asks the consumer for its acknowledgement. */
  readonly ack?: boolean;
  /** Those of the series in this batch are written into it. */
  readonly units?: Units | undefined;
}

interface Series {
  readonly index: number;
  readonly type: ValueType;
  readonly asset: string | null;
  readonly metric: string | null;
}

/**
 * Rows in rising seq order as one msgpack batch, uncompressed, in a buffer of its own. Without rows there must be lost
 * ranges, and the batch covers those. A typed row whose payload does not read as its type is carried as opaque bytes.
 */
export function encodeColumns(source: Source, rows: readonly SpoolRow[], extra: BatchExtra = {}): Buffer {
  const { lost = [], hist = false, ack = false, units } = extra;
  assert(rows.length > 0 || lost.length > 0, 'a batch holds rows or lost ranges');
  const dictionary = new Dictionary();
  const count = rows.length;
  const indices = new Array<number>(count);
  const steps = new Array<number | bigint>(count);
  const values = new Array<unknown>(count);
  const seqSteps = new Array<number | bigint>(count);
  const qualities: number[] = [];
  const retained: number[] = [];
  const first = rows[0]?.seq ?? (Math.min(...lost.map((range) => range.from)) as Seq);
  let start = 0;
  let lastTs = 0;
  let lastSeq = first - 1;
  let lastQuality: Quality = GOOD;
  let contiguous = true;

  for (let n = 0; n < count; n++) {
    const row = rows[n] as SpoolRow;
    assert(row.seq > lastSeq, 'rows rise by seq', { seq: row.seq, after: lastSeq });
    const reading = readingOf(row);
    const gap = reading ? undefined : gapOf(row);
    let type: ValueType = 'p';
    let ts: number = row.deviceTs ?? row.enqueuedAt;
    let quality = GOOD;
    if (reading) {
      ({ type, ts, quality } = reading);
      values[n] = type === 'i' && typeof reading.value === 'number' ? wireInteger(reading.value) : reading.value;
    } else if (gap) {
      type = 'g';
      values[n] = { ...gap, from: wireInteger(gap.from), to: wireInteger(gap.to) };
    } else values[n] = row.payload;

    indices[n] = dictionary.indexOf(row, type);
    if (n === 0) lastTs = start = ts;
    steps[n] = wireInteger(ts - lastTs);
    lastTs = ts;
    const seqStep = row.seq - lastSeq;
    seqSteps[n] = wireInteger(seqStep);
    if (seqStep !== 1) contiguous = false;
    lastSeq = row.seq;
    if (quality !== lastQuality) {
      qualities.push(n, quality);
      lastQuality = quality;
    }
    if (row.retain) retained.push(n);
  }

  const last = count > 0 ? lastSeq : Math.max(...lost.map((range) => range.to));
  const batch: Record<string, unknown> = {
    v: BATCH_VERSION,
    gw: source.gateway,
    ep: source.epoch,
    f: wireInteger(first),
    l: wireInteger(last),
    n: count,
    t0: wireInteger(start),
    k: dictionary.entries,
    i: indices,
    t: steps,
    x: values,
  };
  if (qualities.length > 0) batch.q = qualities;
  if (!contiguous) batch.s = seqSteps;
  if (retained.length > 0) batch.rt = retained;
  const unitPairs = units === undefined || units.size === 0 ? [] : dictionary.unitPairs(units);
  if (unitPairs.length > 0) batch.u = unitPairs;
  if (hist) batch.hist = true;
  if (ack) batch.ack = true;
  if (lost.length > 0) batch.lost = lost.map(({ from, to, reason }) => [wireInteger(from), wireInteger(to), reason]);
  return pack(batch);
}

/** Series by topic; a topic nearly always has one, so a map of short lists needs no composite key per row. */
class Dictionary {
  readonly entries: string[][] = [];
  private readonly byTopic = new Map<string, Series[]>();

  indexOf({ topic, asset, metric }: SpoolRow, type: ValueType): number {
    let candidates = this.byTopic.get(topic);
    if (candidates === undefined) {
      candidates = [];
      this.byTopic.set(topic, candidates);
    }
    for (const series of candidates)
      if (series.type === type && (type === 'p' || (series.asset === asset && series.metric === metric)))
        return series.index;
    const index = this.entries.length;
    candidates.push({ index, type, asset, metric });
    this.entries.push(entry(topic, type, asset, metric));
    return index;
  }

  /** `[series, unit, series, unit, …]`, series rising. */
  unitPairs(units: Units): (number | string)[] {
    return this.entries.flatMap(([, type, asset, metric], index) => {
      const unit = asset === undefined || metric === undefined ? undefined : units.get(asset)?.get(metric);
      return unit === undefined || type === 'g' ? [] : [index, unit];
    });
  }
}

function entry(topic: string, type: ValueType, asset: string | null, metric: string | null): string[] {
  if (type === 'p' || asset === null) return [topic, type];
  return metric === null ? [topic, type, asset] : [topic, type, asset, metric];
}
