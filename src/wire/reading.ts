import type { Millis } from '../model/ids.js';
import {
  BAD,
  GOOD,
  type Json,
  type Quality,
  type Reading,
  type ReadingType,
  type ReadingValue,
} from '../model/reading.js';
import { JsonProblem, JsonScanner, type WideJson } from './json-scan.js';
import { parseQuality, qualityText } from './quality.js';

/**
 * The payload of a reading on the plant's topics: `{"ts": ms, "value": v, "quality"?: "good" | … | number}`.
 *
 * What parses as a reading is carried as typed values and can be rebuilt exactly; what does not (unknown or duplicate
 * keys, broken UTF-8, an integer that fits nowhere) is named as a problem, and the caller carries the bytes as they are.
 *
 * Bytes are base64 strings. The floats that JSON does not know are the strings "NaN", "Infinity" and "-Infinity"; they
 * need the type to be told from text. The quality is left out when it is good and there is a value; a null value
 * without one is bad. Negative zero becomes zero.
 */
export interface ParsedReading {
  readonly ts: Millis;
  readonly type: ReadingType;
  readonly value: ReadingValue;
  readonly quality: Quality;
}

export interface ReadingProblem {
  /** Why the payload is no reading, for an operator. */
  readonly problem: string;
}

/** Keys that may stand in a payload and be left behind; `any` where an earlier parse has already decided that. */
export type IgnoredKeys = ReadonlySet<string> | 'any';

const NO_KEYS: IgnoredKeys = new Set();
export const INT64_MIN = -(2n ** 63n);
export const UINT64_MAX = 2n ** 64n - 1n;

export function encodeReadingPayload(reading: Pick<Reading, 'ts' | 'type' | 'value' | 'quality'>): Buffer {
  const value = valueText(reading);
  const implied = reading.value === null ? undefined : GOOD;
  const quality = reading.quality === implied ? '' : `,"quality":${JSON.stringify(qualityText(reading.quality))}`;
  return Buffer.from(`{"ts":${reading.ts},"value":${value}${quality}}`);
}

function valueText({ type, value }: Pick<Reading, 'type' | 'value'>): string {
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof Uint8Array)
    return `"${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')}"`;
  return type === 'f' && typeof value === 'number' ? floatText(value) : JSON.stringify(value);
}

/** A float as JSON that reads back as the same float. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return `"${value}"`;
  // Written with an exponent, a large whole float is not mistaken for an integer that no double can hold.
  return Math.abs(value) > Number.MAX_SAFE_INTEGER ? value.toExponential() : String(value);
}

const scanner = new JsonScanner();
const COLON = 0x3a;
const TS = Buffer.from('"ts"');
const VALUE = Buffer.from('"value"');
const QUALITY = Buffer.from('"quality"');
const OWN_KEYS: ReadonlySet<string> = new Set(['ts', 'value', 'quality']);

/**
 * Never throws. Without `type` the value decides: true and false are `b`, text `s`, objects and arrays `j`, numbers and
 * null `f`; an integer that a double cannot hold is `i`.
 */
export function parseReadingPayload(
  payload: Uint8Array,
  type?: ReadingType,
  ignoreKeys: IgnoredKeys = NO_KEYS,
): ParsedReading | ReadingProblem {
  scanner.start(payload);
  try {
    return parse(type, ignoreKeys);
  } catch (error) {
    if (error instanceof JsonProblem) return error;
    throw error;
  } finally {
    scanner.release();
  }
}

function parse(type: ReadingType | undefined, ignoreKeys: IgnoredKeys): ParsedReading {
  let ts: unknown;
  let value: WideJson | undefined;
  let integerLiteral = false;
  let quality: WideJson | undefined;
  let others: Set<string> | undefined;
  scanner.expect(0x7b);
  do {
    if (ts === undefined && scanner.takeWord(TS)) {
      scanner.expect(COLON);
      ts = scanner.value();
    } else if (value === undefined && scanner.takeWord(VALUE)) {
      scanner.expect(COLON);
      value = scanner.value();
      integerLiteral = scanner.integerLiteral;
    } else if (quality === undefined && scanner.takeWord(QUALITY)) {
      scanner.expect(COLON);
      quality = scanner.value();
    } else {
      const key = scanner.string();
      scanner.expect(COLON);
      // A key of ours gets here when it comes again, or when it is spelled with escapes.
      if (OWN_KEYS.has(key) || others?.has(key)) throw new JsonProblem(`duplicate key ${JSON.stringify(key)}`);
      if (ignoreKeys !== 'any' && !ignoreKeys.has(key)) throw new JsonProblem(`unknown key ${JSON.stringify(key)}`);
      others ??= new Set();
      others.add(key);
      scanner.value();
    }
  } while (scanner.take(0x2c));
  scanner.expect(0x7d);
  scanner.finish();

  if (!Number.isSafeInteger(ts)) throw new JsonProblem('ts is not a whole number of milliseconds');
  if (value === undefined) throw new JsonProblem('value is missing');
  const code = quality === undefined ? (value === null ? BAD : GOOD) : parseQuality(quality);
  if (code === undefined)
    throw new JsonProblem(typeof quality === 'string' ? `unknown quality "${quality}"` : 'quality is no known code');
  const kind = type ?? typeOf(value);
  return { ts: ts as Millis, type: kind, value: coerce(kind, value, integerLiteral), quality: code };
}

function typeOf(value: WideJson): ReadingType {
  switch (typeof value) {
    case 'boolean':
      return 'b';
    case 'string':
      return 's';
    case 'bigint':
      return 'i';
    case 'number':
      return 'f';
    default:
      return value === null ? 'f' : 'j';
  }
}

function coerce(type: ReadingType, value: WideJson, integerLiteral: boolean): ReadingValue {
  if (value === null) return null;
  switch (type) {
    case 'f':
      if (typeof value === 'number') return value;
      if (typeof value === 'bigint') return Number(value);
      if (value === 'NaN' || value === 'Infinity' || value === '-Infinity') return Number(value);
      break;
    case 'i':
      if (Number.isSafeInteger(value)) return value as number;
      if (typeof value === 'bigint' || (typeof value === 'number' && integerLiteral)) return integer(BigInt(value));
      break;
    case 'b':
      if (typeof value === 'boolean') return value;
      break;
    case 's':
      if (typeof value === 'string') return value;
      break;
    case 'x':
      if (typeof value === 'string') return bytes(value);
      break;
    case 'j':
      if (!hasBigInt(value)) return value as Json;
      break;
  }
  throw new JsonProblem(`the value does not fit type ${type}`);
}

/** A number where that is exact. Nothing wider than 64 bits has a form on the wire. */
function integer(value: bigint): number | bigint {
  if (value < INT64_MIN || value > UINT64_MAX) throw new JsonProblem('an integer needs more than 64 bits');
  const rounded = Number(value);
  return Number.isSafeInteger(rounded) ? rounded : value;
}

function bytes(base64: string): Uint8Array {
  const decoded = Buffer.from(base64, 'base64');
  if (decoded.toString('base64') !== base64) throw new JsonProblem('the value is not base64');
  return decoded;
}

function hasBigInt(value: WideJson): boolean {
  if (typeof value === 'bigint') return true;
  if (typeof value !== 'object' || value === null) return false;
  return Object.values(value).some(hasBigInt);
}
