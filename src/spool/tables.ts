/**
 * The spool's table and its totals; this module runs in the store's thread.
 *
 * Invariants: `seq` only rises and is never used again (AUTOINCREMENT keeps its own counter, so an emptied table does not
 * start over). `spool_state` holds the totals of exactly the rows that are committed, because it is written in the same
 * transaction; depth, bytes and age therefore never need a scan, and a start with millions of rows reads one row.
 */
import type { Database } from 'better-sqlite3';
import { assert } from '../lib/assert.js';
import { TALLY_TOPIC } from '../model/tally.js';
import { unlessFull } from '../store/full.js';
import type { OpenTables, Tables } from '../store/tables.js';
import { checksum } from './checksum.js';
import { DeadLetters } from './dead-letters.js';
import { Dropping } from './dropping.js';
import { newEpoch } from './epoch.js';
import { OWN_FLAGS } from './flags.js';
import { LostRanges } from './lost-ranges.js';
import { peeking } from './peek.js';
import { Salvage } from './salvage.js';
import { MIGRATIONS } from './schema.js';
import { Tallies } from './tallies.js';

/**
 * Rows of a transaction are gathered and inserted so many at a time: with AUTOINCREMENT every statement also reads and
 * writes SQLite's own sequence table, which costs as much as the row.
 */
const INSERT_ROWS = 32;
const COLUMNS = 9;

/** `received = rows + acknowledged + dropped + dead`, at every commit. */
export interface State {
  epoch: string;
  /** When the newest row came in. Neither a start nor an acknowledgement is a sign that anything was read in the plant. */
  aliveAt: number;
  rows: number;
  bytes: number;
  received: number;
  acknowledged: number;
  dead: number;
  dropped: number;
}

/** What the operations in other files need of the rows; `state` is that of the running transaction. */
export interface Rows {
  readonly db: Database;
  readonly state: State;
  readonly size: string;
  /** Returns the row's seq. The row may be in the table later, at `flush`. */
  insert(...row: InsertArgs): number;
  /** The same at once; when the table does not take the row, this throws and nothing has changed. */
  insertNow(...row: InsertArgs): number;
  /** To be called before a statement that reads or changes the table. */
  flush(): void;
  /** A row has left that need not have been the oldest. */
  hasLeft(seq: number): void;
  /** Rows have gone, and `state` has been told. */
  changed(): void;
  /** To be called before a COMMIT: writes what must agree with the rows. */
  save(): void;
}

export type InsertArgs = [
  topic: string,
  payload: Uint8Array,
  props: Uint8Array | null,
  flags: number,
  asset: string | null,
  metric: string | null,
  deviceTs: number | null,
  enqueuedAt: number,
];

function open(db: Database): OpenTables {
  const now = Date.now();
  db.prepare(
    `INSERT OR IGNORE INTO spool_state (id, epoch, rows, bytes, received, acknowledged, alive_at)
     VALUES (1, ?, 0, 0, 0, 0, ?)`,
  ).run(newEpoch(), now);
  const before = db.prepare('SELECT alive_at AS aliveAt, closed_at AS closedAt FROM spool_state').get() as {
    aliveAt: number;
    closedAt: number | null;
  };
  unlessFull(() => db.prepare('UPDATE spool_state SET closed_at = NULL').run());

  const insertRows = (rows: number) =>
    db.prepare(`INSERT INTO spool VALUES ${Array(rows).fill('(NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)').join(', ')}`);
  const insertMany = insertRows(INSERT_ROWS);
  const insertOne = insertRows(1);
  const size = 'length(payload) + ifnull(length(props), 0)';
  const measure = db.prepare(`SELECT count(*), total(${size}) FROM spool WHERE seq <= ?`).raw();
  const deleteUpTo = db.prepare('DELETE FROM spool WHERE seq <= ?');
  const firstRow = db.prepare('SELECT seq, enqueued_at FROM spool ORDER BY seq LIMIT 1').raw();
  const readState = db.prepare(
    'SELECT epoch, rows, bytes, received, acknowledged, dead, dropped, alive_at AS aliveAt FROM spool_state',
  );
  const readTail = db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'spool'").pluck();
  const writeState = db.prepare(
    `UPDATE spool_state SET rows = ?, bytes = ?, received = ?, acknowledged = ?, dead = ?, dropped = ?, alive_at = ?,
       closed_at = ?`,
  );

  const tallies = new Tallies(db);
  let state: State;
  let tail = 0;
  let head = 0;
  let oldestAt = Number.NaN;
  let dirty = false;
  let closedAt: number | null = null;
  /** Since the start: bytes of all rows, and what riders have done, which get no answer of their own. */
  let since = { bytesIn: 0, drops: 0, burials: 0, buried: 0 };
  /** The same as it is in the file. */
  let committed = { ...since };
  /** 1 when the table and its totals have been seen to disagree. */
  let strays = 0;
  /** Values of the rows that have their seq and are not inserted yet: `tail` counts them. */
  let gathered: unknown[] = [];

  const flush = () => {
    if (gathered.length === 0) return;
    const values = gathered;
    gathered = [];
    let last: number | bigint = 0;
    let at = 0;
    const many = INSERT_ROWS * COLUMNS;
    for (; at + many <= values.length; at += many)
      last = insertMany.run(...values.slice(at, at + many)).lastInsertRowid;
    for (; at < values.length; at += COLUMNS) last = insertOne.run(...values.slice(at, at + COLUMNS)).lastInsertRowid;
    if (Number(last) !== tail) assert(false, 'rows get the seqs that were promised', { last, tail });
  };
  const findHead = () => {
    flush();
    const row = firstRow.get() as [number, number] | undefined;
    if ((row === undefined) !== (state.rows === 0) || state.rows > tail + 1 - (row?.[0] ?? tail + 1)) strays = 1;
    head = row?.[0] ?? tail + 1;
    oldestAt = row?.[1] ?? Number.NaN;
  };
  const load = () => {
    gathered = [];
    state = readState.get() as State;
    tail = (readTail.get() as number | undefined) ?? 0;
    dirty = false;
    findHead();
  };
  load();

  /** Gives a row its seq, and counts it. */
  const count = (...[, payload, props, flags, asset, metric, deviceTs, enqueuedAt]: InsertArgs): number => {
    const seq = ++tail;
    if (state.rows === 0) {
      head = seq;
      oldestAt = enqueuedAt;
    }
    state.rows++;
    state.received++;
    state.aliveAt = enqueuedAt;
    const bytes = payload.length + (props?.length ?? 0);
    state.bytes += bytes;
    since.bytesIn += bytes;
    tallies.add(seq, flags, asset, metric, deviceTs);
    dirty = true;
    return seq;
  };
  const insert: Rows['insert'] = (topic, payload, props, flags, asset, metric, deviceTs, enqueuedAt) => {
    const sum = checksum(topic, payload, props, flags, asset, metric, deviceTs);
    gathered.push(topic, payload, props, flags, asset, metric, deviceTs, enqueuedAt, sum);
    const seq = count(topic, payload, props, flags, asset, metric, deviceTs, enqueuedAt);
    if (gathered.length === INSERT_ROWS * COLUMNS) flush();
    return seq;
  };
  const insertNow: Rows['insertNow'] = (...row) => {
    const [topic, payload, props, flags, asset, metric, deviceTs] = row;
    flush();
    const sum = checksum(topic, payload, props, flags, asset, metric, deviceTs);
    const { lastInsertRowid } = insertOne.run(...row, sum);
    const seq = count(...row);
    if (Number(lastInsertRowid) !== seq) assert(false, 'the sequence rises by one', { lastInsertRowid, seq });
    return seq;
  };
  const save = () => {
    flush();
    if (!dirty) return;
    tallies.beforeCommit(head);
    const { rows, bytes, received, acknowledged, dead, dropped, aliveAt } = state;
    writeState.run(rows, bytes, received, acknowledged, dead, dropped, aliveAt, closedAt);
    dirty = false;
  };
  const rows: Rows = {
    db,
    get state() {
      return state;
    },
    size,
    insert,
    insertNow,
    flush,
    hasLeft: (seq) => tallies.hasLeft(seq),
    changed() {
      dirty = true;
      findHead();
    },
    save,
  };
  const lost = new LostRanges(db);
  const dropping = new Dropping(rows, lost);
  const peek = peeking(db, lost);
  const dead = new DeadLetters(rows, lost);
  const salvage = new Salvage(rows, dead);

  return {
    operations: {
      /** Returns the row's seq. */
      insert,
      /** Spools the tallies that are due, or all that have anything new; returns how many rows that took. */
      tally(now: number, all: number): number {
        const payloads = tallies.take(now, tail, all === 1);
        for (const payload of payloads)
          insert(TALLY_TOPIC, Buffer.from(payload), null, OWN_FLAGS, null, null, null, now);
        return payloads.length;
      },
      /** Deletes the rows up to and including `upTo`; returns how many there were. */
      acknowledge(upTo: number): number {
        flush();
        lost.forget(upTo);
        const [rows, bytes] = measure.get(upTo) as [number, number];
        if (rows === 0) return 0;
        const { changes } = deleteUpTo.run(upTo);
        assert(changes === rows, 'an acknowledgement deletes the rows it measured', { changes, rows });
        state.rows -= rows;
        state.bytes -= bytes;
        state.acknowledged += rows;
        assert(state.rows >= 0 && state.bytes >= 0, 'the totals agree with the rows', { ...state });
        dirty = true;
        findHead();
        return rows;
      },
      bury(seq: number, at: number, reason: string): undefined {
        since.burials++;
        since.buried += dead.bury(seq, at, reason);
      },
      requeue: (seq: number, at: number) => dead.requeue(seq, at),
      drop(after: number, bytes: number, at: number): number {
        since.drops++;
        return dropping.drop(after, bytes, at);
      },
      /** Brings over some more of a damaged file; returns how much of its sequence is left to be looked at. */
      salvage: () => salvage.step(),
      /** The gaps of a damage have been written down. */
      damageTold(id: number): number {
        return db.prepare('DELETE FROM spool_damage WHERE id = ?').run(id).changes;
      },
      /** Notes that what follows was a wish and not a crash. */
      close(at: number): undefined {
        closedAt = at;
        dirty = true;
      },
    },
    queries: {
      peek,
      /** The newest dead letters, as [seq, reason, topic, bytes, buriedAt], highest seq first. */
      dead: (max: number) => dead.newest(max),
      /** What the oldest damage took that has not been told: [id, report]. */
      damage: () => db.prepare('SELECT id, report FROM spool_damage ORDER BY id LIMIT 1').raw().get(),
      about() {
        return { epoch: state.epoch, aliveAt: before.aliveAt, closedAt: before.closedAt };
      },
    },
    beforeCommit: save,
    afterCommit() {
      committed = { ...since };
    },
    afterRollback() {
      since = { ...committed };
      load();
      tallies.recount();
      dropping.forget();
      salvage.load();
    },
    salvage: (old, damage, sparing) => salvage.begin(old, damage, sparing),
    gauges() {
      const { rows, bytes, received, acknowledged, dead, dropped } = state;
      const totals = { rows, bytes, received, acknowledged, dead, dropped };
      return { ...totals, ...committed, head, tail, oldestAt, strays, toSalvage: salvage.left };
    },
  };
}

export const tables: Tables = { name: 'spool', migrations: MIGRATIONS, open };
