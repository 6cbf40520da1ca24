import type { Millis, Seq } from '../model/ids.js';
import {
  GOOD,
  type Json,
  type Quality,
  type ReadingType,
  type ReadingValue,
  type ValueType,
} from '../model/reading.js';
import { type BatchRow, malformed } from './batch.js';
import { gapBody } from './gap.js';
import { INT64_MIN, UINT64_MAX } from './reading.js';

/** One row of a batch as it came off the wire, before its value is held against its type. */
export interface RawRow {
  readonly seq: Seq;
  readonly topic: string;
  readonly type: ValueType;
  readonly asset: string | null;
  readonly metric: string | null;
  readonly ts: Millis;
  readonly value: unknown;
  readonly quality: Quality;
  readonly retain: boolean;
}

const TYPES: ReadonlySet<unknown> = new Set<ValueType>(['f', 'i', 'b', 's', 'x', 'j', 'p', 'g']);

export function isValueType(type: unknown): type is ValueType {
  return TYPES.has(type);
}

/** Throws `wire.malformed` when the identity or the value does not go with the type. */
export function batchRow(raw: RawRow): BatchRow {
  const { seq, topic, type, asset, metric, ts, value, quality, retain } = raw;
  if (type === 'p') {
    if (!(value instanceof Uint8Array)) throw misfit(raw);
    return { seq, topic, type, asset: null, metric: null, ts, payload: value, quality: GOOD, retain };
  }
  if (asset === null) throw malformed(`a row of type ${type} has no asset`, { seq });
  if (type === 'g') {
    const gap = gapBody(value);
    if (!gap) throw misfit(raw);
    return { seq, topic, type, asset, metric, ts, gap, quality: GOOD, retain };
  }
  if (metric === null) throw malformed(`a row of type ${type} has no metric`, { seq });
  return { seq, topic, type, asset, metric, ts, value: coerce(raw, type), quality, retain };
}

/** The type letter decides: whole floats travel as integers, and a float64 may stand for a small integer. */
function coerce(raw: RawRow, type: ReadingType): ReadingValue {
  const { value } = raw;
  if (value === null) return null;
  switch (type) {
    case 'f':
      if (typeof value === 'number') return value;
      if (typeof value === 'bigint') return Number(value);
      break;
    case 'i':
      if (Number.isSafeInteger(value)) return value as number;
      // Whole doubles beyond 2⁵³ are exact, too: JSON literals, or the float64 of another encoder.
      if (typeof value === 'bigint' || Number.isInteger(value)) {
        const whole = BigInt(value as number | bigint);
        if (whole >= INT64_MIN && whole <= UINT64_MAX) return whole;
      }
      break;
    case 'b':
      if (typeof value === 'boolean') return value;
      break;
    case 's':
      if (typeof value === 'string') return value;
      break;
    case 'x':
      if (value instanceof Uint8Array) return value;
      break;
    case 'j':
      return json(value, raw);
  }
  throw misfit(raw);
}

/** Well above what a gateway sends; deeper values exist only to exhaust the stack. */
const JSON_DEPTH_MAX = 64;

/** Numbers that came as 64-bit integers become doubles again; anything that JSON has no word for is refused. */
function json(value: unknown, raw: RawRow, depth = 0): Json {
  if (depth > JSON_DEPTH_MAX) throw misfit(raw);
  switch (typeof value) {
    case 'boolean':
    case 'string':
      return value;
    case 'number':
      if (Number.isFinite(value)) return value;
      break;
    case 'bigint':
      return Number(value);
    case 'object':
      if (value === null) return null;
      if (Array.isArray(value)) return value.map((item) => json(item, raw, depth + 1));
      if (Object.getPrototypeOf(value) === Object.prototype)
        return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, json(item, raw, depth + 1)]));
      break;
  }
  throw misfit(raw);
}

function misfit({ seq, type }: RawRow): Error {
  return malformed(`the value of seq ${seq} does not fit type ${type}`, { seq, type });
}
