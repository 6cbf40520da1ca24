import type Database from 'better-sqlite3';
import type { Epoch, GatewayId, Millis, Seq } from '../model/ids.js';
import type { Source } from '../model/row.js';
import type { LostRange } from '../wire/batch.js';
import type { LedgerEntry } from './historian.js';
import { holesIn, mergeRanges, type SeqRange } from './ledger.js';

interface SourceRecord {
  readonly id: number;
  readonly gateway: GatewayId;
  readonly epoch: Epoch;
  readonly last_batch_at: Millis;
  readonly newest_ts: Millis | null;
}

/** The ledger's tables. Ranges of one source never touch: `add` keeps them merged, so they stay few. */
export class SqliteLedger {
  private readonly below: Database.Statement<[number, number], { first: number; last: number }>;
  private readonly remove: Database.Statement<[number, number]>;
  private readonly insert: Database.Statement<[number, number, number]>;
  private readonly highest: Database.Statement<[number], number>;
  private readonly insertJump: Database.Statement<[number, number, number, number]>;
  private readonly insertLost: Database.Statement<[number, number, number, string]>;
  private readonly sources: Database.Statement<[], SourceRecord>;
  private readonly source: Database.Statement<[string, string], SourceRecord>;
  private readonly received: Database.Statement<[number], SeqRange>;
  private readonly lost: Database.Statement<[number], SeqRange>;

  constructor(db: Database.Database) {
    this.below = db.prepare(
      'SELECT first, last FROM ledger WHERE source_id = ? AND first <= ? ORDER BY first DESC LIMIT 1',
    );
    this.remove = db.prepare('DELETE FROM ledger WHERE source_id = ? AND first = ?');
    this.insert = db.prepare('INSERT INTO ledger (source_id, first, last) VALUES (?, ?, ?)');
    this.highest = db
      .prepare<[number], number>('SELECT last FROM ledger WHERE source_id = ? ORDER BY first DESC LIMIT 1')
      .pluck();
    this.insertJump = db.prepare(
      'INSERT INTO jumps (source_id, first, last, noticed_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
    );
    this.insertLost = db.prepare(
      'INSERT INTO lost (source_id, first, last, reason) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
    );
    const columns = 'SELECT id, gateway, epoch, last_batch_at, newest_ts FROM sources';
    this.sources = db.prepare(`${columns} ORDER BY id`);
    this.source = db.prepare(`${columns} WHERE gateway = ? AND epoch = ?`);
    this.received = db.prepare('SELECT first AS "from", last AS "to" FROM ledger WHERE source_id = ? ORDER BY first');
    this.lost = db.prepare('SELECT first AS "from", last AS "to" FROM lost WHERE source_id = ? ORDER BY first');
  }

  /** Adds a range, swallowing every range that it overlaps or touches; a jump over seqs is noted as such. */
  add(sourceId: number, { from, to }: SeqRange, now: Millis): void {
    const highest = this.highest.get(sourceId) ?? 0;
    if (from > highest + 1) this.insertJump.run(sourceId, highest + 1, from - 1, now);
    let first = from;
    let last = to;
    for (;;) {
      const range = this.below.get(sourceId, last + 1);
      if (!range || range.last < first - 1) break;
      if (range.first <= first && range.last >= last) return;
      this.remove.run(sourceId, range.first);
      first = Math.min(first, range.first);
      last = Math.max(last, range.last);
    }
    this.insert.run(sourceId, first, last);
  }

  addLost(sourceId: number, { from, to, reason }: LostRange): void {
    this.insertLost.run(sourceId, from, to, reason);
  }

  entries(): LedgerEntry[] {
    return this.sources.all().map((record) => this.entryOf(record));
  }

  entry({ gateway, epoch }: Source): LedgerEntry | undefined {
    const record = this.source.get(gateway, epoch);
    return record && this.entryOf(record);
  }

  private entryOf({ id, gateway, epoch, last_batch_at, newest_ts }: SourceRecord): LedgerEntry {
    const received = this.received.all(id);
    const lost = mergeRanges(this.lost.all(id));
    const known = mergeRanges([...received, ...lost]);
    const last = (known.at(-1)?.to ?? 0) as Seq;
    return {
      gateway,
      epoch,
      received,
      lost,
      holes: holesIn(known),
      last,
      lastBatchAt: last_batch_at,
      newestTs: newest_ts,
    };
  }
}
