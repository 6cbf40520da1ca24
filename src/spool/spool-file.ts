/** A spool file as it is at one moment, to be looked at from outside; the file itself is only copied. */
import type { Database } from 'better-sqlite3';
import SQLite from 'better-sqlite3';
import { HoldfastError, messageOf } from '../lib/errors.js';
import type { Millis, Seq } from '../model/ids.js';
import type { SpoolInput } from '../model/row.js';
import { attempt, type Row, readableRows } from '../store/salvage.js';
import { type Snapshot, takeSnapshot } from '../store/snapshot.js';
import { scanWal } from '../store/wal-scan.js';
import { isSound } from './checksum.js';
import { fromFlags } from './flags.js';
import type { InsertArgs } from './tables.js';

const COLUMNS = 'topic, payload, props, flags, asset_id, metric_name, device_ts, enqueued_at';
const SIZE = 'length(payload) + ifnull(length(props), 0)';

export interface FileRow extends SpoolInput {
  readonly seq: Seq;
  readonly enqueuedAt: Millis;
  /** Of dead letters. */
  readonly reason?: string;
  readonly buriedAt?: Millis;
}

export interface FileStats {
  readonly epoch: string;
  readonly rows: number;
  readonly bytes: number;
  readonly received: number;
  readonly acknowledged: number;
  readonly dropped: number;
  readonly dead: number;
  readonly head: number;
  readonly tail: number;
  readonly oldestAt: number | null;
  readonly aliveAt: number;
  readonly closedAt: number | null;
  readonly lostRanges: number;
  /** A damaged file is not read to its end yet; the next run of the gateway goes on with it. */
  readonly isSalvaging: boolean;
}

export class SpoolFile {
  private readonly snapshot: Snapshot;
  private readonly db: Database;
  private readonly lostFrames: number;

  private constructor(snapshot: Snapshot, db: Database, lostFrames: number) {
    this.snapshot = snapshot;
    this.db = db;
    this.lostFrames = lostFrames;
  }

  /** Throws `usage.invalid`, `spool.busy`, or `spool.damaged` when it is no database at all. */
  static async open(path: string): Promise<SpoolFile> {
    const snapshot = await takeSnapshot(path);
    try {
      const { lostFrames } = scanWal(snapshot.path);
      const db = new SQLite(snapshot.path, { readonly: true });
      db.prepare('SELECT count(*) FROM sqlite_master').get();
      return new SpoolFile(snapshot, db, lostFrames);
    } catch (error) {
      snapshot.remove();
      throw new HoldfastError('spool.damaged', `${path} cannot be read: ${messageOf(error)}`);
    }
  }

  /** Throws `spool.damaged` when the totals cannot be read. */
  stats(): FileStats {
    return this.read(() => {
      const { db } = this;
      // Older files have fewer columns.
      const state = db.prepare('SELECT * FROM spool_state').get() as Record<string, number> & { epoch: string };
      const first = db.prepare('SELECT seq, enqueued_at AS at FROM spool ORDER BY seq LIMIT 1').get() as
        | { seq: number; at: number }
        | undefined;
      const tail =
        (db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'spool'").pluck().get() as number | undefined) ?? 0;
      return {
        epoch: state.epoch,
        rows: state.rows ?? 0,
        bytes: state.bytes ?? 0,
        received: state.received ?? 0,
        acknowledged: state.acknowledged ?? 0,
        dropped: state.dropped ?? 0,
        dead: state.dead ?? 0,
        head: first?.seq ?? tail + 1,
        tail,
        oldestAt: first?.at ?? null,
        aliveAt: state.alive_at ?? 0,
        closedAt: state.closed_at ?? null,
        lostRanges: attempt(() => db.prepare('SELECT count(*) FROM spool_lost').pluck().get() as number) ?? 0,
        isSalvaging: attempt(() => db.prepare('SELECT 1 FROM spool_salvage').get()) !== undefined,
      };
    });
  }

  /** Rows after `after` by rising seq; what cannot be read is passed over. */
  *rows(after = 0): Generator<FileRow> {
    for (const row of readableRows(this.db, 'spool', COLUMNS, { after })) yield fileRow(row);
  }

  *dead(): Generator<FileRow> {
    for (const row of readableRows(this.db, 'dead_letters', `${COLUMNS}, reason, buried_at`))
      yield { ...fileRow(row), reason: row[9] as string, buriedAt: row[10] as Millis };
  }

  /** What is wrong with the file, in words; empty when nothing is. Reads every page. */
  verify(): string[] {
    const findings: string[] = [];
    if (this.lostFrames > 0) findings.push(`the log is damaged: ${this.lostFrames} pages of later commits are lost`);
    const check = attempt(() => this.db.pragma('integrity_check(20)') as { integrity_check: string }[]);
    if (!check) findings.push('it cannot be read to the end');
    for (const { integrity_check: line } of check ?? []) if (line !== 'ok') findings.push(line);
    try {
      findings.push(...this.disagreements());
    } catch (error) {
      findings.push(messageOf(error));
    }
    return findings;
  }

  close(): void {
    this.db.close();
    this.snapshot.remove();
  }

  private *disagreements(): Generator<string> {
    const stats = this.stats();
    const { rows, bytes, received, acknowledged, dropped, dead, tail } = stats;
    const one = (sql: string) => this.read(() => this.db.prepare(sql).pluck().get() as number);
    const sum = rows + acknowledged + dropped + dead;
    if (received !== sum) yield `received ${received} is not stored + acknowledged + dropped + dead = ${sum}`;
    const counted = one('SELECT count(*) FROM spool');
    if (counted !== rows) yield `the totals say ${rows} rows, the table has ${counted}`;
    const size = one(`SELECT total(${SIZE}) FROM spool`);
    if (size !== bytes) yield `the totals say ${bytes} bytes, the rows have ${size}`;
    const letters = one('SELECT count(*) FROM dead_letters');
    if (letters !== dead) yield `the totals say ${dead} dead letters, the table has ${letters}`;
    const newest = one('SELECT ifnull(max(seq), 0) FROM spool');
    const unsound: number[] = [];
    for (const [seq, ...row] of this.sums())
      if (!isSound(row.slice(0, 8) as unknown as InsertArgs, row[8] as number | null)) unsound.push(seq as number);
    if (unsound.length > 0)
      yield `${unsound.length} rows have changed since they were written: seq ${unsound.slice(0, 20).join(', ')}`;
    if (newest > tail) yield `seq ${newest} is stored, but the counter stands at ${tail}`;
  }

  private *sums(): Generator<Row> {
    const hasSums = this.db.prepare("SELECT 1 FROM pragma_table_info('spool') WHERE name = 'checksum'").get();
    if (hasSums) yield* readableRows(this.db, 'spool', `${COLUMNS}, checksum`);
  }

  private read<T>(query: () => T): T {
    try {
      return query();
    } catch (error) {
      throw new HoldfastError('spool.damaged', `it cannot be read: ${messageOf(error)}`);
    }
  }
}

function fileRow(row: readonly unknown[]): FileRow {
  return {
    seq: row[0] as Seq,
    topic: row[1] as string,
    payload: row[2] as Uint8Array,
    props: row[3] as Uint8Array | null,
    ...fromFlags(row[4] as number),
    asset: row[5] as string | null,
    metric: row[6] as string | null,
    deviceTs: row[7] as Millis | null,
    enqueuedAt: row[8] as Millis,
  };
}
