import type { CsvRow } from './csv.js';
import { addressOf, type ImportedTag, numberOf } from './tag-import-cells.js';

const EVERY = '1s';

/** A row under our own column names. */
export function plainTag({ cells }: CsvRow, base: 0 | 1): ImportedTag {
  const { tag: name = '', address = '', type = '', device, unit, interval, access = '' } = cells;
  const tag: Record<string, unknown> = { name, at: addressOf(address, base), type };
  for (const key of ['scale', 'offset', 'length'] as const) if (cells[key]) tag[key] = numberOf(cells[key], key);
  if (cells.order) tag.order = cells.order.toUpperCase();
  if (cells.deadband)
    tag.deadband = cells.deadband.endsWith('%') ? cells.deadband : numberOf(cells.deadband, 'deadband');
  if (cells.invalid) tag.invalid = cells.invalid === 'sunspec' ? 'sunspec' : cells.invalid.split(/[ |]+/);
  if (cells.unit_text) tag.unit = cells.unit_text;
  if (cells.enum) tag.enum = namesOf(cells.enum);
  return {
    asset: device || undefined,
    unit: unit ? numberOf(unit, 'unit') : undefined,
    every: interval || EVERY,
    writable: /w/i.test(access),
    tag,
  };
}

/** `0=off|1=auto` */
function namesOf(text: string): Record<string, string> {
  return Object.fromEntries(
    text.split('|').map((pair) => {
      const [, raw, name] = /^\s*(-?\d+)\s*[=:]\s*(.+?)\s*$/.exec(pair) ?? [];
      if (raw === undefined || name === undefined)
        throw new Error(`enum: expected 0=off|1=auto, found ${JSON.stringify(text)}`);
      return [raw, name];
    }),
  );
}
