import type { BatchRow, ReadingRow } from '../wire/batch.js';

/** A value in the column of its kind: see postgres-schema.ts. All null for a reading without a value. */
export interface PostgresValue {
  readonly number: number | null;
  readonly whole: number | bigint | null;
  readonly text: string | null;
  readonly bytes: Uint8Array | null;
}

const NONE: PostgresValue = { number: null, whole: null, text: null, bytes: null };

export function readingValue({ type, value }: ReadingRow): PostgresValue {
  if (value === null) return NONE;
  switch (type) {
    case 'f':
      return { ...NONE, number: value as number };
    case 'i':
      return { ...NONE, whole: value as number | bigint };
    case 'b':
      return { ...NONE, whole: value ? 1 : 0 };
    case 's':
      return textValue(value as string);
    case 'x':
      return { ...NONE, bytes: value as Uint8Array };
    case 'j':
      return textValue(JSON.stringify(value));
  }
}

/** What is put into quarantine of any row. */
export function rowValue(row: BatchRow): PostgresValue {
  if (row.type === 'p') return { ...NONE, bytes: row.payload };
  if (row.type === 'g') return textValue(JSON.stringify(row.gap));
  return readingValue(row);
}

function textValue(text: string): PostgresValue {
  return text.includes('\0') ? { ...NONE, bytes: Buffer.from(text) } : { ...NONE, text };
}

/**
 * Rows as one array per column, which is how they travel to `unnest`. Rows with values of other types than the columns'
 * are refused by the database, with the whole batch.
 */
export function columnsOf<Row>(rows: readonly Row[], ...columns: ((row: Row) => unknown)[]): unknown[][] {
  return columns.map((column) => rows.map(column));
}
