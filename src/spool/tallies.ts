/**
 * The tallies of a spool file; this module runs in the store's thread.
 *
 * Invariant: every committed reading with a seq up to `counted_up_to` is counted in the table, and every one after it is
 * still in the spool. So nothing is counted twice or never, wherever a crash comes, and yet the table is written once for
 * many commits: at the latest in the one in which rows leave that it does not count yet. A start or a ROLLBACK counts the
 * few rows after `counted_up_to` again.
 *
 * Tallies go up as rows of the same spool, and each such row speaks of the seqs up to its `upTo`. A tally that has been sent
 * and was not touched for a while is put away, which keeps the table small; it is safe at any time, because a reading that
 * comes later begins another tally.
 */
import type { Database } from 'better-sqlite3';
import { TALLY_HOUR_MS, TALLY_MODULUS, tallyTerm } from '../model/tally.js';
import { isReading } from './flags.js';

export const TALLIES_SCHEMA = `
  CREATE TABLE tallies (
    asset_id    TEXT NOT NULL,
    metric_name TEXT NOT NULL,
    hour        INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    checksum    INTEGER NOT NULL,
    sent        INTEGER NOT NULL,
    touched_at  INTEGER NOT NULL,
    PRIMARY KEY (asset_id, metric_name, hour)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE tallies_state (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    counted_up_to INTEGER NOT NULL
  ) STRICT;
  INSERT INTO tallies_state VALUES (1, 0);`;

/** What a start has to count again at most, in less than a tenth of a second; with it, writing costs next to nothing. */
const UNCOUNTED_ROWS_MAX = 50_000;
/** Counted again at a time: a file from before the tallies may hold millions. */
const PAGE_ROWS = 5_000;

/** An hour that is not over is told about once it has this many more readings: then it adds a hundredth to the stream. */
const UNSENT_READINGS = 100;
/** An hour is told about when it has been over for so long, which lets a reader deliver its last values. */
const SETTLE_MS = 60_000;
const PUT_AWAY_MS = 3_600_000;
/** Per row sent: some kilobytes, well below any upstream's limit. */
const TALLIES_PER_ROW = 100;
/** At a time: what is left is sent the next time, and no transaction grows with the number of series. */
const ROWS_MAX = 50;
/** Series that are kept in memory, more than one site has: asset names may come from publishers. */
const SERIES_MAX = 50_000;

interface Series {
  readonly asset: string;
  readonly metric: string;
  /** The hour that it counts in now. */
  counting: Counting;
  /** The one whose reading came after its last one. */
  next: Series | undefined;
}

interface Counting {
  readonly asset: string;
  readonly metric: string;
  readonly hour: number;
  first: number;
  last: number;
  count: number;
  checksum: number;
  /** Counted since it was last written. */
  dirty: boolean;
}

type Saved = Pick<Counting, 'first' | 'last' | 'count' | 'checksum'>;
type Key = [asset: string, metric: string, hour: number];

export class Tallies {
  /** By asset and metric. */
  private readonly series = new Map<string, Map<string, Series>>();
  private seriesCount = 0;
  private latest: Series | undefined;
  private unwritten: Counting[] = [];
  /** Those of them that their series has turned away from. */
  private readonly turned = new Map<string, Counting>();
  private countedUpTo = 0;
  private lastSeq = 0;
  private readonly load;
  private readonly save;
  private readonly readState;
  private readonly saveState;
  private readonly uncounted;
  private readonly due;
  private readonly markSent;
  private readonly putAway;

  constructor(db: Database) {
    this.load = db.prepare<Key, Saved>(
      'SELECT first, last, count, checksum FROM tallies WHERE asset_id = ? AND metric_name = ? AND hour = ?',
    );
    this.save = db.prepare(
      `INSERT INTO tallies VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)
       ON CONFLICT DO UPDATE SET last = excluded.last, count = excluded.count, checksum = excluded.checksum,
         touched_at = excluded.touched_at`,
    );
    this.readState = db.prepare<[], number>('SELECT counted_up_to FROM tallies_state').pluck();
    this.saveState = db.prepare('UPDATE tallies_state SET counted_up_to = ?');
    this.uncounted = db
      .prepare<[number], [seq: number, flags: number, asset: string | null, metric: string | null, ts: number | null]>(
        `SELECT seq, flags, asset_id, metric_name, device_ts FROM spool WHERE seq > ? ORDER BY seq LIMIT ${PAGE_ROWS}`,
      )
      .raw();
    this.due = db
      .prepare<[number, number, number], [...Key, number, number, number, number]>(
        `SELECT asset_id, metric_name, hour, first, last, count, checksum FROM tallies
         WHERE count > sent AND (count - sent >= ? OR hour <= ?) LIMIT ?`,
      )
      .raw();
    this.markSent = db.prepare<Key>(
      'UPDATE tallies SET sent = count WHERE asset_id = ? AND metric_name = ? AND hour = ?',
    );
    this.putAway = db.prepare('DELETE FROM tallies WHERE sent = count AND touched_at <= ? AND hour <= ?');
    this.recount();
  }

  /** A row has been inserted. */
  add(seq: number, flags: number, asset: string | null, metric: string | null, ts: number | null): void {
    this.lastSeq = seq;
    if (asset === null || metric === null || ts === null || !isReading(flags)) return;
    const series = this.seriesOf(asset, metric, ts, seq);
    let tally = series.counting;
    if (ts < tally.hour || ts >= tally.hour + TALLY_HOUR_MS) tally = this.turn(series, ts, seq);
    const checksum = tally.checksum + tallyTerm(seq, ts - tally.hour);
    tally.checksum = checksum >= TALLY_MODULUS ? checksum - TALLY_MODULUS : checksum;
    tally.last = seq;
    tally.count++;
    if (tally.dirty) return;
    tally.dirty = true;
    this.unwritten.push(tally);
  }

  /**
   * Call before every COMMIT that holds new rows or rows that leave; `head` is the seq of the oldest row that stays, one
   * past the last when none does. It comes after the deletions, so that on a full device there is the room they leave.
   */
  beforeCommit(head: number): void {
    if (head - 1 > this.countedUpTo || this.lastSeq - this.countedUpTo >= UNCOUNTED_ROWS_MAX) this.write();
  }

  /** Call in the same transaction when a row leaves that need not have been the oldest: after it, for the same reason. */
  hasLeft(seq: number): void {
    if (seq > this.countedUpTo) this.write();
  }

  /** Call at the start and after every ROLLBACK: what was counted may not be so, but the rows say what is. */
  recount(): void {
    this.forget();
    this.countedUpTo = this.lastSeq = this.readState.get() ?? 0;
    for (let rows = this.page(); rows.length > 0; rows = this.page()) for (const row of rows) this.add(...row);
  }

  /**
   * The payloads of the rows that are to be sent now, taken as sent: tallies with enough that is new, and of hours that are
   * over; with `all` every one that has anything new. `upTo` is the last seq that has been counted.
   */
  take(now: number, upTo: number, all: boolean): string[] {
    this.write();
    const over = all ? Number.MAX_SAFE_INTEGER : now - TALLY_HOUR_MS - SETTLE_MS;
    const tallies = this.due.all(UNSENT_READINGS, over, TALLIES_PER_ROW * ROWS_MAX);
    for (const [asset, metric, hour] of tallies) this.markSent.run(asset, metric, hour);
    const { changes } = this.putAway.run(now - PUT_AWAY_MS, now - PUT_AWAY_MS);
    if (changes > 0) this.forget();
    return Array.from({ length: Math.ceil(tallies.length / TALLIES_PER_ROW) }, (_, n) =>
      JSON.stringify({ upTo, tallies: tallies.slice(n * TALLIES_PER_ROW, (n + 1) * TALLIES_PER_ROW) }),
    );
  }

  private page() {
    return this.uncounted.all(this.lastSeq);
  }

  private write(): void {
    const now = Date.now();
    for (const tally of this.unwritten) {
      const { asset, metric, hour, first, last, count, checksum } = tally;
      this.save.run(asset, metric, hour, first, last, count, checksum, now);
      tally.dirty = false;
    }
    this.saveState.run(this.lastSeq);
    this.countedUpTo = this.lastSeq;
    this.unwritten = [];
    this.turned.clear();
    if (this.seriesCount > SERIES_MAX) this.forget();
  }

  private forget(): void {
    this.series.clear();
    this.seriesCount = 0;
    this.latest = undefined;
    this.turned.clear();
    this.unwritten = [];
  }

  /**
   * Readers deliver the same metrics in the same order again and again, and comparing two strings is cheaper than hashing
   * two that have just been made: this is paid for by every reading.
   */
  private seriesOf(asset: string, metric: string, ts: number, seq: number): Series {
    const guess = this.latest?.next;
    if (guess && guess.asset === asset && guess.metric === metric) {
      this.latest = guess;
      return guess;
    }
    const series = this.series.get(asset)?.get(metric) ?? this.meet(asset, metric, ts, seq);
    if (this.latest) this.latest.next = series;
    this.latest = series;
    return series;
  }

  private meet(asset: string, metric: string, ts: number, seq: number): Series {
    const series = { asset, metric, counting: this.begin(asset, metric, hourOf(ts), seq), next: undefined };
    const metrics = this.series.get(asset) ?? new Map<string, Series>();
    this.series.set(asset, metrics.set(metric, series));
    this.seriesCount++;
    return series;
  }

  /** Lets a series count in the hour of `ts` from now on. */
  private turn(series: Series, ts: number, seq: number): Counting {
    const { asset, metric, counting: before } = series;
    if (before.dirty) this.turned.set(keyOf(before), before);
    const hour = hourOf(ts);
    series.counting = this.turned.get(keyOf({ asset, metric, hour })) ?? this.begin(asset, metric, hour, seq);
    return series.counting;
  }

  private begin(asset: string, metric: string, hour: number, seq: number): Counting {
    const saved = this.load.get(asset, metric, hour) ?? { first: seq, last: seq, count: 0, checksum: 0 };
    return { asset, metric, hour, ...saved, dirty: false };
  }
}

function hourOf(ts: number): number {
  return Math.floor(ts / TALLY_HOUR_MS) * TALLY_HOUR_MS;
}

function keyOf({ asset, metric, hour }: Pick<Counting, 'asset' | 'metric' | 'hour'>): string {
  return `${asset}\0${metric}\0${hour}`;
}
