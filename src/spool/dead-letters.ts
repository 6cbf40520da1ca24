/** Rows that the cloud can never take: kept, counted, and put back into the queue when somebody asks for it. */

import type { Row } from '../store/salvage.js';
import type { LostRanges } from './lost-ranges.js';
import type { InsertArgs, Rows } from './tables.js';

const COLUMNS = 'topic, payload, props, flags, asset_id, metric_name, device_ts';

export type DeadLetter = [seq: number, reason: string, topic: string, bytes: number, buriedAt: number];

export class DeadLetters {
  private readonly rows: Rows;
  private readonly lost: LostRanges;
  private readonly sizeOf;
  private readonly copy;
  private readonly remove;
  private readonly letter;
  private readonly removeLetter;
  private readonly list;

  constructor(rows: Rows, lost: LostRanges) {
    const { db, size } = rows;
    this.rows = rows;
    this.lost = lost;
    this.sizeOf = db.prepare(`SELECT ${size} FROM spool WHERE seq = ?`).pluck();
    // A damaged row may hold anything, and has to find a place here all the same.
    this.copy = db.prepare(
      `INSERT INTO dead_letters
       SELECT seq, CAST(ifnull(topic, '') AS TEXT), CAST(ifnull(payload, x'') AS BLOB), CAST(props AS BLOB),
         CAST(ifnull(flags, 0) AS INTEGER), CAST(asset_id AS TEXT), CAST(metric_name AS TEXT),
         CAST(device_ts AS INTEGER), CAST(ifnull(enqueued_at, 0) AS INTEGER), ?, ?
       FROM spool WHERE seq = ?`,
    );
    this.remove = db.prepare('DELETE FROM spool WHERE seq = ?');
    this.letter = db.prepare(`SELECT ${COLUMNS} FROM dead_letters WHERE seq = ?`).raw();
    this.removeLetter = db.prepare('DELETE FROM dead_letters WHERE seq = ?');
    this.list = db
      .prepare(`SELECT seq, reason, topic, ${size}, buried_at FROM dead_letters ORDER BY seq DESC LIMIT ?`)
      .raw();
  }

  /** Sets a row aside. Returns 0 when it is gone already. */
  bury(seq: number, buriedAt: number, reason: string): number {
    const { state } = this.rows;
    this.rows.flush();
    const bytes = this.sizeOf.get(seq) as number | null | undefined;
    if (bytes === undefined) return 0;
    this.copy.run(buriedAt, reason, seq);
    this.remove.run(seq);
    this.lost.add(seq, seq, reason);
    this.rows.hasLeft(seq);
    state.rows--;
    state.bytes -= bytes ?? 0;
    state.dead++;
    this.rows.changed();
    return 1;
  }

  /** Puts a dead letter at the end of the queue, as a new row. Returns its new seq, or 0 when there is no such letter. */
  requeue(seq: number, at: number): number {
    const { state } = this.rows;
    const row = this.letter.get(seq) as Row | undefined;
    if (!row) return 0;
    this.removeLetter.run(seq);
    const { aliveAt } = state;
    const fresh = this.rows.insert(...([...row, at] as unknown as InsertArgs));
    // It came in, and was counted, long ago.
    state.aliveAt = aliveAt;
    state.received--;
    state.dead--;
    return fresh;
  }

  newest(max: number): DeadLetter[] {
    return this.list.all(max) as DeadLetter[];
  }
}
