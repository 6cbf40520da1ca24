import type { CsvRow } from './csv.js';
import { addressOf, type ImportedTag, numberOf } from './tag-import-cells.js';

/** Kepware's data types of its Modbus drivers, in lower case. */
const TYPES: Readonly<Record<string, string>> = {
  boolean: 'bool',
  short: 'i16',
  word: 'u16',
  long: 'i32',
  dword: 'u32',
  llong: 'i64',
  qword: 'u64',
  float: 'f32',
  double: 'f64',
  bcd: 'bcd16',
  lbcd: 'bcd32',
  string: 'string',
};

/** A row of a Kepware export. Its groups become part of the name, as a topic has no dots to spare. */
export function kepwareTag({ cells }: CsvRow, base: 0 | 1): ImportedTag {
  const type = TYPES[(cells['data type'] ?? '').toLowerCase()];
  if (!type) throw new Error(`data type: ${JSON.stringify(cells['data type'] ?? '')} has no counterpart`);
  const rate = cells['scan rate'] ? numberOf(cells['scan rate'], 'scan rate') : 1000;
  const tag: Record<string, unknown> = {
    name: (cells['tag name'] ?? '').replaceAll('.', '_'),
    ...place(cells, type, base),
    type,
  };
  if (/^linear$/i.test(cells.scaling ?? '')) tag.range = rangeOf(cells);
  else if (cells.scaling && !/^none$/i.test(cells.scaling))
    throw new Error(`scaling: ${cells.scaling} is not known here`);
  return {
    asset: undefined,
    unit: undefined,
    every: `${rate}ms`,
    writable: /w/i.test(cells['client access'] ?? ''),
    tag,
  };
}

/** `400001`, `400001.5` for a bit, `400001.20H` for a text of 20 bytes with the high byte first. */
function place(cells: CsvRow['cells'], type: string, base: 0 | 1): Record<string, unknown> {
  const address = cells.address ?? '';
  if (type !== 'string') return { at: addressOf(address, base) };
  const [, register, length, layout = 'H'] = /^(\d+)\.(\d+)([HL])?$/i.exec(address) ?? [];
  if (register === undefined || length === undefined)
    throw new Error(`address: expected a text like 400001.20H, found ${JSON.stringify(address)}`);
  return {
    at: addressOf(register, base),
    length: Number(length),
    ...(layout.toUpperCase() === 'L' ? { order: 'BADC' } : {}),
  };
}

function rangeOf(cells: CsvRow['cells']): object {
  const end = (name: string) => numberOf(cells[name] ?? '', name);
  const clamped = /^(1|true|yes)$/i;
  return {
    raw: [end('raw low'), end('raw high')],
    eng: [end('scaled low'), end('scaled high')],
    clamp: clamped.test(cells['clamp low'] ?? '') && clamped.test(cells['clamp high'] ?? ''),
  };
}
