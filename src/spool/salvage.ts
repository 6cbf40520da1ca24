/**
 * Rows of a damaged file, into a new file. It is a new epoch: what was lost may have been numbers that the cloud knows, so
 * every row gets a new one, in the old order, and the report says between which times how many are missing. Dead letters
 * come before the rows.
 */
import type { Database } from 'better-sqlite3';
import { attempt, inPieces, type Row, readableRows, tryWrite } from '../store/salvage.js';
import type { Damage } from '../store/tables.js';
import { COLUMNS, RowCopy } from './copy-rows.js';
import { countRows } from './count-rows.js';
import type { DeadLetters } from './dead-letters.js';
import { epochTime } from './epoch.js';
import { Holes } from './holes.js';
import type { InsertArgs, Rows } from './tables.js';

/** Of so many assets the report names; a plant has some hundreds. */
const ASSETS_MAX = 5_000;

export interface DamageReport extends Damage {
  /** The epoch of the damaged file, where it could be read. */
  readonly epoch: string | null;
  /** Rows in the new file; among them may be some whose checksum will have them set aside. */
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
  const tail = old && sequenceOf(old);
  const holes = new Holes();
  let salvaged = 0;
  let assets: string[] = [];
  if (old) {
    // First, because from then on it is SQL that counts, and `rows` knows nothing of it.
    salvageLetters(rows, dead, old, state?.alive_at);
    const { db } = rows;
    const last = sequenceOf(db) ?? 0;
    salvaged = new RowCopy(db, old, last + 1, holes).run(tail);
    assets = countRows(db, last, last + salvaged, ASSETS_MAX);
  }
  const missing = damage.lostCommits || !state ? null : Math.max(0, state.rows - salvaged);
  const report: DamageReport = {
    ...damage,
    epoch: state?.epoch ?? null,
    salvaged,
    missing,
    ...holes.span(missing, tail, { bornAt: state ? epochTime(state.epoch) : 0, aliveAt: state?.alive_at ?? null, now }),
    assets,
  };
  rows.db.prepare('INSERT INTO spool_damage (report) VALUES (?)').run(JSON.stringify(report));
}

/** The highest seq that the file has given. */
function sequenceOf(db: Database): number | undefined {
  return attempt(() => db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'spool'").pluck().get() as number);
}

function salvageLetters(rows: Rows, dead: DeadLetters, old: Database, aliveAt: number | undefined): void {
  const letters = readableRows(old, 'dead_letters', `${COLUMNS}, buried_at, reason`);
  const bury = ([, ...letter]: Row) => {
    let seq = 0;
    tryWrite(() => {
      seq = rows.insertNow(...(letter.slice(0, 8) as unknown as InsertArgs));
    });
    if (seq > 0) dead.bury(seq, letter[8] as number, letter[9] as string);
    rows.state.aliveAt = aliveAt ?? rows.state.aliveAt;
  };
  inPieces(rows.db, letters, bury, rows.save);
}
