/**
 * Makes room by giving up the oldest rows that may be given up, in whole ranges. In the same transaction each range goes
 * to the list of what the cloud is told of, and each series gets a gap record that says from when to when how many of its
 * readings are missing. One gap record per series is enough, however often its rows are dropped: it grows.
 */
import { checksum } from './checksum.js';
import { flagsOf, isDroppable, isReading } from './flags.js';
import type { LostRanges } from './lost-ranges.js';
import type { Rows } from './tables.js';

/** Rows looked at in one call; a transaction that looks at more would hold up the commits behind it. */
const SCAN_ROWS_MAX = 50_000;
const STEP_ROWS = 1_024;
/** Gap records in memory, for series that are dropped again and again. */
const GAPS_MAX = 20_000;
const REASON = 'spool-full';
/** Never to be dropped itself. */
const GAP_FLAGS = flagsOf({ qos: 1, retain: false, droppable: false, type: 'g' });

type Row = [
  seq: number,
  bytes: number,
  flags: number,
  topic: string,
  asset: string | null,
  metric: string | null,
  deviceTs: number | null,
];

interface Gap {
  readonly topic: string;
  readonly asset: string;
  readonly metric: string | null;
  from: number;
  to: number;
  count: number;
  /** Its row; 0 while it has none. */
  seq: number;
  /** Payload bytes of that row. */
  bytes: number;
}

interface Run {
  readonly first: number;
  last: number;
}

export class Dropping {
  private readonly rows: Rows;
  private readonly lost: LostRanges;
  private readonly scan;
  private readonly remove;
  private readonly rewrite;
  private gaps = new Map<string, Gap>();
  /** No row up to here may be dropped. */
  private scanned = 0;

  constructor(rows: Rows, lost: LostRanges) {
    this.rows = rows;
    this.lost = lost;
    this.scan = rows.db
      .prepare(
        `SELECT seq, ${rows.size}, flags, topic, asset_id, metric_name, device_ts FROM spool
         WHERE seq > ? ORDER BY seq LIMIT ?`,
      )
      .raw();
    this.remove = rows.db.prepare('DELETE FROM spool WHERE seq BETWEEN ? AND ?');
    this.rewrite = rows.db.prepare('UPDATE spool SET payload = ?, device_ts = ?, checksum = ? WHERE seq = ?');
  }

  /** Drops droppable rows after `after` until they make up `bytes`, or no more are found. Returns how many. */
  drop(after: number, bytes: number, at: number): number {
    this.rows.flush();
    const { runs, touched, count, size } = this.choose(after, bytes);
    const { state } = this.rows;
    for (const { first, last } of runs) {
      this.remove.run(first, last);
      this.lost.add(first, last, REASON);
      this.rows.hasLeft(last);
    }
    state.rows -= count;
    state.bytes -= size;
    state.dropped += count;
    for (const gap of touched) this.write(gap, at);
    if (this.gaps.size > GAPS_MAX) this.gaps.clear();
    if (count > 0) this.rows.changed();
    return count;
  }

  /** After a rollback nothing that is remembered of rows can be relied on. */
  forget(): void {
    this.gaps.clear();
    this.scanned = 0;
  }

  private choose(after: number, bytes: number) {
    const runs: Run[] = [];
    const touched = new Set<Gap>();
    let count = 0;
    let size = 0;
    let run: Run | undefined;
    let cursor = Math.max(after, this.scanned);
    let left = SCAN_ROWS_MAX;
    while (left > 0 && size < bytes) {
      const step = this.scan.all(cursor, Math.min(left, STEP_ROWS)) as Row[];
      for (const row of step) {
        if (size >= bytes) break;
        const [seq, rowBytes, flags] = row;
        cursor = seq;
        if (!isDroppable(flags)) {
          run = undefined;
          continue;
        }
        // Only what was there is told as dropped: a seq in between may be a dead letter, with a reason of its own.
        if (run?.last === seq - 1) run.last = seq;
        else {
          run = { first: seq, last: seq };
          runs.push(run);
        }
        count++;
        size += rowBytes;
        this.note(row, after, touched);
      }
      left -= step.length;
      if (step.length < STEP_ROWS) break;
    }
    if (after <= this.scanned) this.scanned = cursor;
    return { runs, touched, count, size };
  }

  private note([, , flags, topic, asset, metric, deviceTs]: Row, after: number, touched: Set<Gap>): void {
    if (asset === null || deviceTs === null || !isReading(flags)) return;
    const key = `${asset}\0${metric ?? ''}`;
    let gap = this.gaps.get(key);
    // A record that may have been read for sending says what it says; the next one begins anew.
    if (!gap || (gap.seq > 0 && gap.seq <= after)) {
      gap = { topic, asset, metric, from: deviceTs, to: deviceTs, count: 0, seq: 0, bytes: 0 };
      this.gaps.set(key, gap);
    }
    gap.from = Math.min(gap.from, deviceTs);
    gap.to = Math.max(gap.to, deviceTs);
    gap.count++;
    touched.add(gap);
  }

  /** Writes the record, or lets the one that is there grow. */
  private write(gap: Gap, at: number): void {
    const { state } = this.rows;
    const { topic, asset, metric, from, to, count } = gap;
    const payload = Buffer.from(JSON.stringify({ from, to, count, reason: REASON }));
    const sum = checksum(topic, payload, null, GAP_FLAGS, asset, metric, to);
    if (gap.seq > 0 && this.rewrite.run(payload, to, sum, gap.seq).changes === 1)
      state.bytes += payload.length - gap.bytes;
    else gap.seq = this.rows.insert(topic, payload, null, GAP_FLAGS, asset, metric, to, at);
    gap.bytes = payload.length;
  }
}
