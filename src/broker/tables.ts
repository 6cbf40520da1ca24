/**
 * The broker's tables; this module runs in the store's thread. They hold what must survive a crash of the broker: sessions,
 * their subscriptions and queues, retained messages, wills, and the packet ids of QoS 2 messages that were taken over.
 *
 * A session's number is never used again while rows of it may still come: what was held back for a session that has ended
 * cannot turn up in the next session of the same client.
 */
import type { Database } from 'better-sqlite3';
import type { OpenTables, Tables } from '../store/tables.js';

const MIGRATIONS = [
  `CREATE TABLE retained (
     topic    TEXT PRIMARY KEY,
     payload  BLOB NOT NULL,
     props    BLOB,
     qos      INTEGER NOT NULL,
     deadline INTEGER NOT NULL
   ) STRICT;
   CREATE TABLE sessions (
     session   INTEGER PRIMARY KEY,
     client_id TEXT NOT NULL UNIQUE,
     user      TEXT,
     expiry_s  INTEGER,
     ends_at   INTEGER
   ) STRICT;
   CREATE TABLE subscriptions (
     session             INTEGER NOT NULL,
     filter              TEXT NOT NULL,
     qos                 INTEGER NOT NULL,
     no_local            INTEGER NOT NULL,
     retain_as_published INTEGER NOT NULL,
     retain_handling     INTEGER NOT NULL,
     id                  INTEGER NOT NULL,
     PRIMARY KEY (session, filter)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE outgoing (
     seq       INTEGER PRIMARY KEY AUTOINCREMENT,
     session   INTEGER NOT NULL,
     packet_id INTEGER,
     released  INTEGER NOT NULL DEFAULT 0,
     topic     TEXT NOT NULL,
     payload   BLOB NOT NULL,
     props     BLOB,
     qos       INTEGER NOT NULL,
     retain    INTEGER NOT NULL,
     deadline  INTEGER NOT NULL,
     ids       TEXT
   ) STRICT;
   CREATE INDEX outgoing_session ON outgoing (session, seq);
   CREATE INDEX outgoing_ids ON outgoing (session, packet_id) WHERE packet_id IS NOT NULL;
   CREATE TABLE incoming (
     session   INTEGER NOT NULL,
     packet_id INTEGER NOT NULL,
     PRIMARY KEY (session, packet_id)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE wills (
     client_id TEXT PRIMARY KEY,
     topic     TEXT NOT NULL,
     payload   BLOB NOT NULL,
     props     BLOB,
     qos       INTEGER NOT NULL,
     retain    INTEGER NOT NULL,
     expiry_s  INTEGER NOT NULL,
     delay_s   INTEGER NOT NULL,
     due_at    INTEGER
   ) STRICT, WITHOUT ROWID;`,
  // Who published it, so that a right that has ended since can be seen.
  `ALTER TABLE retained ADD COLUMN sender TEXT;
   ALTER TABLE retained ADD COLUMN user TEXT;
   ALTER TABLE wills ADD COLUMN user TEXT;`,
  'CREATE INDEX outgoing_deadlines ON outgoing (session, deadline) WHERE deadline > 0 AND packet_id IS NULL;',
  // Since when it is the value; 0: from before this was kept.
  'ALTER TABLE retained ADD COLUMN stored_at INTEGER NOT NULL DEFAULT 0;',
];

export type RetainedRow = [
  topic: string,
  payload: Uint8Array,
  props: Uint8Array | null,
  qos: number,
  deadline: number,
  sender: string | null,
  user: string | null,
  storedAt: number,
];
/** `expiryS` null: never; `endsAt` null: connected when the process ended. */
export type SessionRow = [
  session: number,
  clientId: string,
  user: string | null,
  expiryS: number | null,
  endsAt: number | null,
  outgoing: number,
  outgoingBytes: number,
  incoming: number,
];
export type SubscriptionRow = [
  session: number,
  filter: string,
  qos: number,
  noLocal: number,
  retainAsPublished: number,
  retainHandling: number,
  id: number,
];
export type WillRow = [
  clientId: string,
  topic: string,
  payload: Uint8Array,
  props: Uint8Array | null,
  qos: number,
  retain: number,
  expiryS: number,
  delayS: number,
  dueAt: number | null,
  user: string | null,
];
export type OutgoingRow = [
  seq: number,
  packetId: number | null,
  released: number,
  topic: string,
  payload: Uint8Array,
  props: Uint8Array | null,
  qos: number,
  retain: number,
  deadline: number,
  ids: string | null,
];

const EXPIRED = 'session = ? AND deadline > 0 AND packet_id IS NULL AND deadline <= ?';

function open(db: Database): OpenTables {
  // Messages that were held back while their session ended.
  db.exec('DELETE FROM outgoing WHERE session NOT IN (SELECT session FROM sessions)');
  db.exec('DELETE FROM incoming WHERE session NOT IN (SELECT session FROM sessions)');
  const run = (sql: string) => {
    const statement = db.prepare(sql);
    return (...args: unknown[]): number => statement.run(...args).changes;
  };
  const all = (sql: string) => {
    const statement = db.prepare(sql).raw();
    return (...args: unknown[]): unknown[] => statement.all(...args);
  };
  const outgoingPage = db
    .prepare(
      `SELECT seq, packet_id, released, topic, payload, props, qos, retain, deadline, ids
       FROM outgoing WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?`,
    )
    .raw();
  const outgoingIds = db.prepare('SELECT packet_id FROM outgoing WHERE session = ? AND packet_id IS NOT NULL').pluck();
  const outgoingExpiring = db
    .prepare(`SELECT coalesce(sum(length(payload)), 0) FROM outgoing WHERE ${EXPIRED}`)
    .pluck();
  const waiting = db
    .prepare(
      `SELECT seq, length(payload) FROM outgoing
       WHERE session = ? AND seq > ? AND packet_id IS NULL ORDER BY seq`,
    )
    .raw();
  const deleteWaiting = run('DELETE FROM outgoing WHERE session = ? AND seq > ? AND seq <= ? AND packet_id IS NULL');
  /** Of the rows behind `after` that were never sent, the oldest: as many as it takes to make room for both. */
  const oldest = (session: number, after: number, rows: number, bytes: number): { last: number; freed: number } => {
    let [last, taken, freed] = [after, 0, 0];
    for (const [seq, length] of waiting.iterate(session, after) as IterableIterator<[number, number]>) {
      if (taken >= rows && freed >= bytes) break;
      last = seq;
      taken++;
      freed += length;
    }
    return { last, freed };
  };
  const insertOutgoing = db.prepare('INSERT INTO outgoing VALUES (NULL, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)');
  const wipe = ['sessions', 'subscriptions', 'outgoing', 'incoming'].map((table) =>
    run(`DELETE FROM ${table} WHERE session = ?`),
  );
  return {
    operations: {
      retainedPut: run('INSERT OR REPLACE INTO retained VALUES (?, ?, ?, ?, ?, ?, ?, ?)'),
      retainedDelete: run('DELETE FROM retained WHERE topic = ?'),
      sessionPut: run('INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?)'),
      /** With everything that belongs to it, its will excepted. */
      sessionDelete(session: number): undefined {
        for (const remove of wipe) remove(session);
      },
      subscriptionPut: run('INSERT OR REPLACE INTO subscriptions VALUES (?, ?, ?, ?, ?, ?, ?)'),
      subscriptionDelete: run('DELETE FROM subscriptions WHERE session = ? AND filter = ?'),
      /** Returns the row's seq. */
      outgoingPut: (...args: unknown[]): number => Number(insertOutgoing.run(...args).lastInsertRowid),
      outgoingPacketId: run('UPDATE outgoing SET packet_id = ? WHERE seq = ?'),
      /** PUBREC came: only the packet id is still of use. */
      outgoingRelease: run("UPDATE outgoing SET released = 1, payload = x'', props = NULL WHERE seq = ?"),
      /** Bytes of the rows that `outgoingExpire` is about to remove. */
      outgoingExpiring: (session: number, now: number): number => outgoingExpiring.get(session, now) as number,
      /** Rows that have expired and were never sent. Returns their number. */
      outgoingExpire: run(`DELETE FROM outgoing WHERE ${EXPIRED}`),
      /** Bytes of the rows that `outgoingDropOldest` is about to remove. */
      outgoingOldest: (...of: [number, number, number, number]): number => oldest(...of).freed,
      /** Returns the number of rows that went. */
      outgoingDropOldest(session: number, after: number, rows: number, bytes: number): number {
        return deleteWaiting(session, after, oldest(session, after, rows, bytes).last);
      },
      outgoingDelete: run('DELETE FROM outgoing WHERE seq = ?'),
      /** Returns 0 when the packet id is known: the guard against taking a message twice. */
      incomingPut: run('INSERT OR IGNORE INTO incoming VALUES (?, ?)'),
      incomingDelete: run('DELETE FROM incoming WHERE session = ? AND packet_id = ?'),
      willPut: run('INSERT OR REPLACE INTO wills VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'),
      willDelete: run('DELETE FROM wills WHERE client_id = ?'),
    },
    queries: {
      retained: all('SELECT * FROM retained'),
      sessions: all(
        `SELECT *, (SELECT count(*) FROM outgoing o WHERE o.session = s.session),
           (SELECT coalesce(sum(length(payload)), 0) FROM outgoing o WHERE o.session = s.session),
           (SELECT count(*) FROM incoming i WHERE i.session = s.session) FROM sessions s`,
      ),
      subscriptions: all('SELECT * FROM subscriptions'),
      wills: all('SELECT * FROM wills'),
      /** Packet ids in use by a session's rows. */
      outgoingIds: (session: number): unknown[] => outgoingIds.all(session),
      /** At most `rowsMax` rows, and once there is one, no more than `bytesMax` of payload. */
      outgoing(session: number, after: number, rowsMax: number, bytesMax: number): OutgoingRow[] {
        const rows: OutgoingRow[] = [];
        let bytes = 0;
        for (const row of outgoingPage.iterate(session, after, rowsMax) as IterableIterator<OutgoingRow>) {
          bytes += row[4].length;
          if (rows.length > 0 && bytes > bytesMax) break;
          rows.push(row);
        }
        return rows;
      },
    },
  };
}

export const tables: Tables = { name: 'broker', migrations: MIGRATIONS, open };
