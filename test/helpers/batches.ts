import type { SpoolRow } from '../../src/model/row.js';
import type { Batch } from '../../src/wire/batch.js';
import { type BatchExtra, encodeColumns } from '../../src/wire/columns.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { reading, readingRow, source, T0 } from './rows.js';

/** A batch as it would arrive, through the real encoder and decoder. */
export function batchOf(rows: readonly SpoolRow[], gateway = 'line-1', epoch = 'e1', extra: BatchExtra = {}): Batch {
  return decodeBatch(encodeColumns(source(gateway, epoch), rows, extra));
}

/** Rows `from`…`to`, one reading each, a second apart; the value is the seq. */
export function rowsFrom(from: number, to: number): SpoolRow[] {
  return Array.from({ length: to - from + 1 }, (_, n) =>
    readingRow(from + n, reading('f', from + n, { ts: (T0 + (from + n) * 1000) as never })),
  );
}
