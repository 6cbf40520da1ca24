import type { Millis } from '../model/ids.js';
import { JsonProblem, JsonScanner, type WideJson } from '../wire/json-scan.js';

/** A command to write a tag: `{"id": "…", "ts": ms, "ttl"?: ms, "value": v}`. */
export interface Command {
  readonly id: string;
  readonly ts: number;
  readonly ttlMs: number;
  /** Integers that no double holds are exact. */
  readonly value: WideJson;
}

/** The command, or what is wrong with it. */
export function parseCommand(payload: Uint8Array, now: Millis, ttlMaxMs: number): Command | string {
  const scanner = new JsonScanner();
  let json: WideJson;
  try {
    scanner.start(payload);
    json = scanner.value();
    scanner.finish();
  } catch (error) {
    if (error instanceof JsonProblem) return error.problem;
    throw error;
  }
  if (json === null || typeof json !== 'object' || Array.isArray(json)) return 'is no object';
  const { id, ts, ttl = ttlMaxMs, value } = json;
  if (typeof id !== 'string' || id.length === 0 || id.length > ID_CHARS_MAX)
    return `id is no text of 1 to ${ID_CHARS_MAX} characters`;
  if (typeof ts !== 'number' || !Number.isSafeInteger(ts)) return 'ts is not a whole number of milliseconds';
  if (typeof ttl !== 'number' || !(ttl > 0 && ttl <= ttlMaxMs)) return `ttl is not from 1 to ${ttlMaxMs} ms`;
  if (value === undefined) return 'value is missing';
  if (ts > now + CLOCKS_APART_MS_MAX) return 'ts is in the future';
  return { id, ts, ttlMs: ttl, value };
}

const ID_CHARS_MAX = 128;
/** Clocks in a plant that are kept by NTP at all are closer than this. */
export const CLOCKS_APART_MS_MAX = 60_000;
