import type { Gap } from '../model/gap.js';
import type { Millis } from '../model/ids.js';
import type { WideJson } from './json-scan.js';
import { JsonProblem, JsonScanner } from './json-scan.js';

/**
 * What a gap record says besides whose gap it is; asset and metric travel beside it. A reason that this version does not
 * know is kept as it is: a consumer must not lose a gap because the gateway is newer.
 */
export interface GapBody {
  readonly from: Millis;
  readonly to: Millis;
  readonly count?: number;
  readonly reason: string;
  readonly detail?: string;
}

const scanner = new JsonScanner();

export function encodeGapPayload({ from, to, count, reason, detail }: GapBody | Gap): Buffer {
  return Buffer.from(JSON.stringify({ from, to, count, reason, detail }));
}

/** The gap in a spooled payload, or undefined when it is none. Never throws. */
export function parseGapPayload(payload: Uint8Array): GapBody | undefined {
  scanner.start(payload);
  try {
    const value = scanner.value();
    scanner.finish();
    return gapBody(value);
  } catch (error) {
    if (error instanceof JsonProblem) return undefined;
    throw error;
  } finally {
    scanner.release();
  }
}

/** `value` as a gap body, keys that are unknown left behind; undefined when it is none. */
export function gapBody(value: unknown): GapBody | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { from, to, count, reason, detail } = value as { [key: string]: WideJson | undefined };
  if (!isMillis(from) || !isMillis(to) || from > to || typeof reason !== 'string') return undefined;
  if (count !== undefined && count !== null && !(Number.isSafeInteger(count) && (count as number) >= 0))
    return undefined;
  if (detail !== undefined && detail !== null && typeof detail !== 'string') return undefined;
  return {
    from,
    to,
    reason,
    ...(typeof count === 'number' && { count }),
    ...(typeof detail === 'string' && { detail }),
  };
}

function isMillis(value: unknown): value is Millis {
  return Number.isSafeInteger(value);
}
