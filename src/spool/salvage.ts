/**
 * Rows of a damaged file, into a new file. It is a new epoch: what was lost may have been numbers that the cloud knows, so
 * every row gets a new one, in the old order, and the report says between which times how many are missing.
 */
import type { Database } from 'better-sqlite3';
import { attempt, inPieces, type Row, readableRows, tryWrite } from '../store/salvage.js';
import type { Damage } from '../store/tables.js';
import { isSound } from './checksum.js';
import type { DeadLetters } from './dead-letters.js';
import { epochTime } from './epoch.js';
import type { InsertArgs, Rows } from './tables.js';

/** Of so many assets the report names; a plant has some hundreds. */
const ASSETS_MAX = 5_000;
const COLUMNS = 'topic, payload, props, flags, asset_id, metric_name, device_ts, enqueued_at';

export interface DamageReport extends Damage {
  /** The epoch of the damaged file, where it could be read. */
  readonly epoch: string | null;
  readonly salvaged: number;
  /** Rows that were in the file and are not in the new one; null when nobody knows. */
  readonly missing: number | null;
  /** Between these times rows may be missing. */
  readonly from: number;
  readonly to: number;
  /** Assets of the rows that were saved. */
  readonly assets: readonly string[];
}

interface OldState {
  epoch: string;
  rows: number;
  alive_at: number;
}

export function salvageSpool(rows: Rows, dead: DeadLetters, old: Database | undefined, damage: Damage): void {
  const now = Date.now();
  const state = old && attempt(() => old.prepare('SELECT * FROM spool_state').get() as OldState | undefined);
  const tail =
    old && attempt(() => old.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'spool'").pluck().get() as number);
  const known = new Set<string>();
  const holes = new Holes();
  let salvaged = 0;
  const insert = (row: Row): number => {
    let seq = 0;
    tryWrite(() => {
      seq = rows.insertNow(...(row as unknown as InsertArgs));
    });
    return seq;
  };
  if (old) {
    inPieces(
      rows.db,
      readableRows(old, 'spool', `${COLUMNS}, ${sumColumn(old)}`, { upTo: tail }),
      ([seq, ...row]) => {
        const sum = row.pop() as number | null;
        if (!isSound(row as unknown as InsertArgs, sum) || insert(row) === 0) return;
        salvaged++;
        const asset = row[4] as string | null;
        if (asset !== null && known.size < ASSETS_MAX) known.add(asset);
        holes.pass(seq as number, row[7] as number);
      },
      rows.save,
    );
    const letters = readableRows(old, 'dead_letters', `${COLUMNS}, buried_at, reason`);
    inPieces(
      rows.db,
      letters,
      ([, ...letter]) => {
        const seq = insert(letter.slice(0, 8));
        if (seq > 0) dead.bury(seq, letter[8] as number, letter[9] as string);
        rows.state.aliveAt = state?.alive_at ?? rows.state.aliveAt;
      },
      rows.save,
    );
  }
  const missing = damage.lostCommits || !state ? null : Math.max(0, state.rows - salvaged);
  const report: DamageReport = {
    ...damage,
    epoch: state?.epoch ?? null,
    salvaged,
    missing,
    ...holes.span(missing, tail, { bornAt: state ? epochTime(state.epoch) : 0, aliveAt: state?.alive_at ?? null, now }),
    assets: [...known],
  };
  rows.db.prepare('INSERT INTO spool_damage (report) VALUES (?)').run(JSON.stringify(report));
}

/** Older files have none. */
function sumColumn(old: Database): string {
  const has = attempt(() => old.prepare("SELECT 1 FROM pragma_table_info('spool') WHERE name = 'checksum'").get());
  return has ? 'checksum' : 'NULL';
}

interface Times {
  /** No row is older, and none is missing that came later. */
  readonly bornAt: number;
  readonly aliveAt: number | null;
  readonly now: number;
}

/** Where the sequence jumps rows may be missing; a row that was set aside leaves such a place, too. */
class Holes {
  private last: number | undefined;
  private lastAt = 0;
  private skipped = 0;
  private from: number | undefined;
  private to: number | undefined;

  pass(seq: number, at: number): void {
    if (this.last !== undefined && seq > this.last + 1) {
      this.skipped += seq - this.last - 1;
      this.from ??= this.lastAt;
      this.to = at;
    }
    this.last = seq;
    this.lastAt = at;
  }

  /** The time in which what is missing came; `missing` null: unknown, up to now. */
  span(
    missing: number | null,
    tail: number | undefined,
    { bornAt, aliveAt, now }: Times,
  ): { from: number; to: number } {
    if (missing === 0) return { from: now, to: now };
    const atEnd = missing === null || this.last === undefined || this.last < (tail ?? this.last);
    const behind = this.last === undefined || tail === undefined ? 0 : tail - this.last;
    const atStart = missing !== null && missing > this.skipped + behind;
    const from = atStart ? bornAt : (this.from ?? (missing === null ? aliveAt : null) ?? (this.lastAt || bornAt));
    return { from: Math.min(from, now), to: atEnd ? now : (this.to ?? now) };
  }
}
