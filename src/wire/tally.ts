import type { Millis, Seq } from '../model/ids.js';
import { TALLY_HOUR_MS, TALLY_MODULUS, TALLY_TOPIC, type Tally } from '../model/tally.js';

/** The tallies of one row. They count every reading of theirs with a seq up to `upTo`, and none after it. */
export interface TallyRecord {
  readonly upTo: Seq;
  readonly tallies: readonly Tally[];
}

/** What an opaque message says as a record of tallies; undefined when it is none. Never throws. */
export function parseTallies({ topic, payload }: { topic: string; payload: Uint8Array }): TallyRecord | undefined {
  if (topic !== TALLY_TOPIC) return undefined;
  let record: unknown;
  try {
    record = JSON.parse(Buffer.from(payload).toString());
  } catch {
    return undefined;
  }
  if (typeof record !== 'object' || record === null) return undefined;
  const { upTo, tallies } = record as Record<string, unknown>;
  if (!isSeq(upTo) || !Array.isArray(tallies)) return undefined;
  const parsed = tallies.map((tally) => tallyOf(tally, upTo));
  return parsed.includes(undefined) ? undefined : { upTo, tallies: parsed as Tally[] };
}

function tallyOf(value: unknown, upTo: Seq): Tally | undefined {
  if (!Array.isArray(value)) return undefined;
  const [asset, metric, hour, first, last, count, checksum] = value as unknown[];
  if (typeof asset !== 'string' || typeof metric !== 'string') return undefined;
  if (!Number.isSafeInteger(hour) || (hour as number) % TALLY_HOUR_MS !== 0) return undefined;
  if (!isSeq(first) || !isSeq(last) || last < first || last > upTo) return undefined;
  if (!isSeq(count) || count > last - first + 1) return undefined;
  if (!Number.isSafeInteger(checksum) || (checksum as number) < 0 || (checksum as number) >= TALLY_MODULUS)
    return undefined;
  return { asset, metric, hour: hour as Millis, first, last, count, checksum: checksum as number };
}

function isSeq(value: unknown): value is Seq {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}
