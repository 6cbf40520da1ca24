/**
 * The spool's table and its totals; this module runs in the store's thread.
 *
 * Invariants: `seq` only rises and is never used again (AUTOINCREMENT keeps its own counter, so an emptied table does not
 * start over). `spool_state` holds the totals of exactly the rows that are committed, because it is written in the same
 * transaction; depth, bytes and age therefore never need a scan, and a start with millions of rows reads one row.
 */
import { randomBytes } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { assert } from '../lib/assert.js';
import { TALLY_TOPIC } from '../model/tally.js';
import { ArenaWriter } from '../store/arena.js';
import type { OpenTables, Tables } from '../store/tables.js';
import { OWN_FLAGS } from './flags.js';
import { TALLIES_SCHEMA, Tallies } from './tallies.js';

const MIGRATIONS = [
  `CREATE TABLE spool (
     seq         INTEGER PRIMARY KEY AUTOINCREMENT,
     topic       TEXT NOT NULL,
     payload     BLOB NOT NULL,
     props       BLOB,
     flags       INTEGER NOT NULL,
     asset_id    TEXT,
     metric_name TEXT,
     device_ts   INTEGER,
     enqueued_at INTEGER NOT NULL
   ) STRICT;
   CREATE TABLE spool_state (
     id           INTEGER PRIMARY KEY CHECK (id = 1),
     epoch        TEXT NOT NULL,
     rows         INTEGER NOT NULL,
     bytes        INTEGER NOT NULL,
     received     INTEGER NOT NULL,
     acknowledged INTEGER NOT NULL,
     alive_at     INTEGER NOT NULL,
     closed_at    INTEGER
   ) STRICT;`,
  `CREATE TABLE dead_letters (
     seq         INTEGER PRIMARY KEY,
     topic       TEXT NOT NULL,
     payload     BLOB NOT NULL,
     props       BLOB,
     flags       INTEGER NOT NULL,
     asset_id    TEXT,
     metric_name TEXT,
     device_ts   INTEGER,
     enqueued_at INTEGER NOT NULL,
     buried_at   INTEGER NOT NULL,
     reason      TEXT NOT NULL
   ) STRICT;
   ALTER TABLE spool_state ADD COLUMN dead INTEGER NOT NULL DEFAULT 0;`,
  TALLIES_SCHEMA,
];

/**
 * Rows of a transaction are gathered and inserted so many at a time: with AUTOINCREMENT every statement also reads and
 * writes SQLite's own sequence table, which costs as much as the row.
 */
const INSERT_ROWS = 32;
const COLUMNS = 8;

/** Rows are taken from the table in steps of this many, so that a limit in bytes is overshot by one step at most. */
const PEEK_STEP_ROWS = 128;

interface State {
  epoch: string;
  /** When the newest row came in. Neither a start nor an acknowledgement is a sign that anything was read in the plant. */
  aliveAt: number;
  rows: number;
  bytes: number;
  received: number;
  acknowledged: number;
  dead: number;
}

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
];

function open(db: Database): OpenTables {
  const now = Date.now();
  db.prepare('INSERT OR IGNORE INTO spool_state VALUES (1, ?, 0, 0, 0, 0, ?, NULL, 0)').run(newEpoch(), now);
  const before = db.prepare('SELECT alive_at AS aliveAt, closed_at AS closedAt FROM spool_state').get() as {
    aliveAt: number;
    closedAt: number | null;
  };
  db.prepare('UPDATE spool_state SET closed_at = NULL').run();

  const insertRows = (rows: number) =>
    db.prepare(`INSERT INTO spool VALUES ${Array(rows).fill('(NULL, ?, ?, ?, ?, ?, ?, ?, ?)').join(', ')}`);
  const insertMany = insertRows(INSERT_ROWS);
  const insertOne = insertRows(1);
  const size = 'length(payload) + ifnull(length(props), 0)';
  const measure = db.prepare(`SELECT count(*), total(${size}) FROM spool WHERE seq <= ?`).raw();
  const sizeOf = db.prepare(`SELECT ${size} FROM spool WHERE seq = ?`).pluck();
  const copyToDead = db.prepare('INSERT INTO dead_letters SELECT *, ?, ? FROM spool WHERE seq = ?');
  const deleteOne = db.prepare('DELETE FROM spool WHERE seq = ?');
  const deadSeqs = db.prepare('SELECT seq, reason FROM dead_letters ORDER BY seq DESC LIMIT ?').raw();
  const deleteUpTo = db.prepare('DELETE FROM spool WHERE seq <= ?');
  const page = db.prepare('SELECT * FROM spool WHERE seq > ? ORDER BY seq LIMIT ?').raw();
  const firstRow = db.prepare('SELECT seq, enqueued_at FROM spool ORDER BY seq LIMIT 1').raw();
  const readState = db.prepare(
    'SELECT epoch, rows, bytes, received, acknowledged, dead, alive_at AS aliveAt FROM spool_state',
  );
  const readTail = db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'spool'").pluck();
  const writeState = db.prepare(
    'UPDATE spool_state SET rows = ?, bytes = ?, received = ?, acknowledged = ?, dead = ?, alive_at = ?',
  );
  const writeClosed = db.prepare('UPDATE spool_state SET closed_at = ?');

  const tallies = new Tallies(db);
  let state: State;
  let tail = 0;
  let head = 0;
  let oldestAt = Number.NaN;
  let dirty = false;
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
    const row = firstRow.get() as [number, number] | undefined;
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

  /** Returns the row's seq. */
  const insert = (
    topic: string,
    payload: Uint8Array,
    props: Uint8Array | null,
    flags: number,
    asset: string | null,
    metric: string | null,
    deviceTs: number | null,
    enqueuedAt: number,
  ): number => {
    const seq = ++tail;
    gathered.push(topic, payload, props, flags, asset, metric, deviceTs, enqueuedAt);
    if (gathered.length === INSERT_ROWS * COLUMNS) flush();
    if (state.rows === 0) {
      head = seq;
      oldestAt = enqueuedAt;
    }
    state.rows++;
    state.received++;
    state.aliveAt = enqueuedAt;
    state.bytes += payload.length + (props?.length ?? 0);
    tallies.add(seq, flags, asset, metric, deviceTs);
    dirty = true;
    return seq;
  };

  return {
    operations: {
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
      /** Sets aside a row that the cloud can never take; it is kept, and counted. Returns 0 when it is gone already. */
      bury(seq: number, buriedAt: number, reason: string): number {
        flush();
        const bytes = sizeOf.get(seq) as number | undefined;
        if (bytes === undefined) return 0;
        tallies.beforeBury(seq);
        copyToDead.run(buriedAt, reason, seq);
        deleteOne.run(seq);
        state.rows--;
        state.bytes -= bytes;
        state.dead++;
        dirty = true;
        findHead();
        return 1;
      },
      /** Notes that what follows was a wish and not a crash. */
      close(at: number): undefined {
        writeClosed.run(at);
      },
    },
    queries: {
      /** Rows after `after` in order, as an arena of nine values each and a null: at most `rowsMax`, at most `bytesMax` unless one row alone is larger. */
      peek(after: number, rowsMax: number, bytesMax: number): ArrayBuffer {
        const values = new ArenaWriter();
        let count = 0;
        for (let cursor = after, left = rowsMax; left > 0 && values.bytes < bytesMax; ) {
          const rows = page.all(cursor, Math.min(left, PEEK_STEP_ROWS)) as RawRow[];
          for (const row of rows) {
            if (count > 0 && values.bytes + row[2].length > bytesMax) {
              left = 0;
              break;
            }
            for (const value of row) values.put(value);
            count++;
          }
          if (rows.length < PEEK_STEP_ROWS) break;
          left -= rows.length;
          cursor = (rows.at(-1) as RawRow)[0];
        }
        values.put(null);
        return values.take();
      },
      /** The newest buried rows, as [seq, reason], highest seq first. */
      dead(max: number) {
        return deadSeqs.all(max);
      },
      about() {
        return { epoch: state.epoch, aliveAt: before.aliveAt, closedAt: before.closedAt };
      },
    },
    beforeCommit() {
      flush();
      if (!dirty) return;
      tallies.beforeCommit(head);
      writeState.run(state.rows, state.bytes, state.received, state.acknowledged, state.dead, state.aliveAt);
      dirty = false;
    },
    afterRollback() {
      load();
      tallies.recount();
    },
    gauges() {
      const { rows, bytes, received, acknowledged, dead } = state;
      return { rows, bytes, received, acknowledged, dead, head, tail, oldestAt };
    },
  };
}

/** Sorts by time of creation, and cannot repeat: 9 digits of milliseconds and 8 random ones, base 32. */
function newEpoch(): string {
  const digits = '0123456789abcdefghjkmnpqrstvwxyz';
  let time = '';
  for (let ms = Date.now(), i = 0; i < 9; i++, ms = Math.floor(ms / 32)) time = digits[ms % 32] + time;
  return time + Array.from(randomBytes(8), (byte) => digits[byte % 32]).join('');
}

export const tables: Tables = { name: 'spool', migrations: MIGRATIONS, open };
