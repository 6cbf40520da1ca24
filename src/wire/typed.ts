import type { SpoolRow } from '../model/row.js';
import { type GapBody, parseGapPayload } from './gap.js';
import { type ParsedReading, parseReadingPayload } from './reading.js';

/**
 * What a spooled row says. A row that does not read as what it is marked as (it was written by another version, or its
 * identity is incomplete) travels as opaque bytes: nothing is lost and nothing throws.
 */
export function readingOf(row: SpoolRow): ParsedReading | undefined {
  if (row.type === 'p' || row.type === 'g' || row.asset === null || row.metric === null) return undefined;
  const parsed = parseReadingPayload(row.payload, row.type, 'any');
  return 'problem' in parsed ? undefined : parsed;
}

export function gapOf(row: SpoolRow): GapBody | undefined {
  return row.type === 'g' && row.asset !== null ? parseGapPayload(row.payload) : undefined;
}
