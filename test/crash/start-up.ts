/**
 * Starts the product's store on a disk image, in this process: the same steps as the store's thread (src/store/worker.ts),
 * which cost a tenth of a thread. Then looks at what is in the file.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Database } from 'better-sqlite3';
import { tables as broker } from '../../src/broker/tables.js';
import { messageOf, systemCodeOf } from '../../src/lib/errors.js';
import { tables as spool } from '../../src/spool/tables.js';
import { migrate, openDatabase } from '../../src/store/database.js';
import type { Image } from './disk.js';

export interface Row {
  readonly seq: number;
  readonly topic: string;
  readonly payload: string;
}

export interface Totals {
  readonly epoch: string;
  readonly rows: number;
  readonly bytes: number;
  readonly received: number;
  readonly acknowledged: number;
  readonly dead: number;
}

/** What a gateway finds after the power is back. */
export interface Found {
  readonly rows: readonly Row[];
  /** The highest seq ever given, as the file says. */
  readonly tail: number;
  readonly totals: Totals;
  /** `rows` and `bytes` counted. */
  readonly counted: { readonly rows: number; readonly bytes: number };
  readonly retained: ReadonlyMap<string, string>;
  /** Client id → number. */
  readonly sessions: ReadonlyMap<string, number>;
  /** `session filter`. */
  readonly subscriptions: ReadonlySet<string>;
  /** `session payload`, and `session` alone for rows whose payload is no longer needed. */
  readonly outgoing: ReadonlySet<string>;
  /** `session packetId`. */
  readonly incoming: ReadonlySet<string>;
}

export type StartUp = Found | { readonly broken: string };

/** Writes the image into `folder`, which it empties, and opens the spool that lies at `path` in it. */
export function startOn(image: Image, folder: string, path: string): StartUp {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
  for (const [name, bytes] of image) {
    const file = join(folder, name);
    if (name.includes('/')) mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, bytes);
  }
  return startAt(join(folder, path));
}

/** Opens the spool at `path` where it lies. */
export function startAt(path: string): StartUp {
  let db: Database | undefined;
  try {
    db = openDatabase({ path });
    for (const owner of [spool, broker]) {
      migrate(db, owner);
      owner.open(db);
    }
    return look(db);
  } catch (error) {
    return { broken: `${systemCodeOf(error) ?? ''} ${messageOf(error)}`.trim() };
  } finally {
    close(db);
  }
}

function look(db: Database): StartUp {
  const integrity = db.pragma('integrity_check', { simple: true });
  if (integrity !== 'ok') return { broken: `integrity_check: ${String(integrity).slice(0, 100)}` };
  const all = <T>(sql: string): T[] => db.prepare(sql).raw().all() as T[];
  const size = 'length(payload) + ifnull(length(props), 0)';
  return {
    rows: all<[number, string, string]>('SELECT seq, topic, CAST(payload AS TEXT) FROM spool').map(
      ([seq, topic, payload]) => ({ seq, topic, payload }),
    ),
    tail: (db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'spool'").pluck().get() as number | undefined) ?? 0,
    totals: db.prepare('SELECT epoch, rows, bytes, received, acknowledged, dead FROM spool_state').get() as Totals,
    counted: db.prepare(`SELECT count(*) AS rows, total(${size}) AS bytes FROM spool`).get() as Found['counted'],
    retained: new Map(all<[string, string]>('SELECT topic, CAST(payload AS TEXT) FROM retained')),
    sessions: new Map(all<[string, number]>('SELECT client_id, session FROM sessions')),
    subscriptions: new Set(all<[string]>("SELECT session || ' ' || filter FROM subscriptions").flat()),
    outgoing: new Set(
      all<[string]>("SELECT session || iif(released, '', ' ' || CAST(payload AS TEXT)) FROM outgoing").flat(),
    ),
    incoming: new Set(all<[string]>("SELECT session || ' ' || packet_id FROM incoming").flat()),
  };
}

/** The image is thrown away; a file that is broken enough may refuse even this. */
function close(db: Database | undefined): void {
  try {
    db?.close();
  } catch {}
}
