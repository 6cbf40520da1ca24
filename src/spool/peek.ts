import type { Database } from 'better-sqlite3';
import { ArenaWriter } from '../store/arena.js';
import type { Value } from '../store/tables.js';
import { isSound } from './checksum.js';
import type { LostRanges } from './lost-ranges.js';

/** Rows are taken from the table in steps of this many, so that a limit in bytes is overshot by one step at most. */
const PEEK_STEP_ROWS = 128;
/** Of a row that are handed over; the last one in the table is the checksum. */
const VALUES = 9;

type RawRow = [
  seq: number,
  topic: string,
  payload: Buffer,
  props: Buffer | null,
  flags: number,
  asset: string | null,
  metric: string | null,
  deviceTs: number | null,
  enqueuedAt: number,
  checksum: number | null,
];

export type Peek = (after: number, rowsMax: number, bytesMax: number) => ArrayBuffer;

/**
 * The query for rows after `after` in order. Its answer is an arena: ten values for each row, the tenth 1 or 0 for sound
 * or not, and a null; at most `rowsMax` rows, and at most `bytesMax` unless one row alone is larger. Then the lost ranges
 * before the last of them, or all when there are no rows: three values each and a null.
 */
export function peeking(db: Database, lost: LostRanges): Peek {
  const page = db.prepare('SELECT * FROM spool WHERE seq > ? ORDER BY seq LIMIT ?').raw();
  return (after, rowsMax, bytesMax) => {
    const values = new ArenaWriter();
    const ranges = lost.after(after);
    let last = Number.POSITIVE_INFINITY;
    let count = 0;
    for (let cursor = after, left = rowsMax; left > 0 && values.bytes < bytesMax; ) {
      const rows = page.all(cursor, Math.min(left, PEEK_STEP_ROWS)) as RawRow[];
      for (const row of rows) {
        if (row[0] > ranges.complete || (count > 0 && values.bytes + (row[2]?.length ?? 0) > bytesMax)) {
          left = 0;
          break;
        }
        for (let n = 0; n < VALUES; n++) values.put(row[n] as Value);
        const [, topic, payload, props, flags, asset, metric, deviceTs, enqueuedAt, sum] = row;
        values.put(isSound([topic, payload, props, flags, asset, metric, deviceTs, enqueuedAt], sum) ? 1 : 0);
        last = row[0];
        count++;
      }
      if (rows.length < PEEK_STEP_ROWS) break;
      left -= rows.length;
      cursor = (rows.at(-1) as RawRow)[0];
    }
    values.put(null);
    for (const range of ranges.list) if (range[0] < last) for (const value of range) values.put(value);
    values.put(null);
    return values.take();
  };
}
