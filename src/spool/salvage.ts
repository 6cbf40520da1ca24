/**
 * Rows of a damaged file, into a new one. It is a new epoch: what was lost may have been numbers that the cloud knows, so
 * every row gets a new one, in the old order, and a report says between which times how many are missing.
 *
 * A start brings over the dead letters and the oldest rows, in about a second. What is left follows in steps while the
 * gateway runs, behind what comes in meanwhile, because nobody can publish to a gateway that has not started yet. How far
 * it is stands in the same transaction as the rows: a crash in between repeats none and leaves none out.
 */
import { basename, dirname, join } from 'node:path';
import type { Database } from 'better-sqlite3';
import { closeQuarantined, openQuarantined } from '../store/quarantine.js';
import { attempt, copyTable, inPieces, type Row, readableRows, searchRows, tryWrite } from '../store/salvage.js';
import type { Damage } from '../store/tables.js';
import { isSound } from './checksum.js';
import type { DeadLetters } from './dead-letters.js';
import { epochTime } from './epoch.js';
import { NOTHING_SEEN, pass, type Seen, span } from './holes.js';
import type { InsertArgs, Rows } from './tables.js';

/** Brought over by the start itself, so that an outage of usual length keeps its order. */
const START_ROWS = 100_000;
/** In one transaction; one that runs beside the plant's messages must be short. */
const START_STEP: Step = { rows: 4_096, bytes: 16 * 1024 * 1024, misses: Number.POSITIVE_INFINITY };
const LATER_STEP: Step = { rows: 2_000, bytes: 512 * 1024, misses: 2 };
/** Of so many assets the report names; a plant has some hundreds. */
const ASSETS_MAX = 5_000;
const COLUMNS = 'topic, payload, props, flags, asset_id, metric_name, device_ts, enqueued_at';

export const SALVAGE_SCHEMA = `
  CREATE TABLE spool_salvage (
    id  INTEGER PRIMARY KEY,
    job TEXT NOT NULL
  ) STRICT;
  CREATE TABLE spool_salvage_assets (
    asset TEXT PRIMARY KEY
  ) STRICT, WITHOUT ROWID;`;

export interface DamageReport extends Damage {
  /** The epoch of the damaged file, where it could be read. */
  readonly epoch: string | null;
  /** Rows in the new file. */
  readonly salvaged: number;
  /** Rows that were in the file and are not in the new one; null when nobody knows. */
  readonly missing: number | null;
  /** Between these times rows may be missing. */
  readonly from: number;
  readonly to: number;
  /** Assets of the rows that were saved. */
  readonly assets: readonly string[];
}

interface Step {
  readonly rows: number;
  readonly bytes: number;
  /** Stretches in which nothing was found. */
  readonly misses: number;
}

/** One damaged file, and how far it has been read. */
interface Job {
  readonly damage: Damage;
  /** Seen from the folder of the spool; null when nothing of it can be read. */
  readonly file: string | null;
  readonly epoch: string | null;
  readonly rows: number | null;
  readonly aliveAt: number | null;
  readonly tail: number | null;
  /** Seq of the last row that was found. */
  after: number;
  salvaged: number;
  readonly seen: Seen;
}

interface Source {
  readonly rows: Iterator<Row | null>;
  readonly close: () => void;
}

export class Salvage {
  private readonly rows: Rows;
  private readonly dead: DeadLetters;
  private readonly oldest;
  private readonly add;
  private readonly save;
  private readonly end;
  private readonly addAsset;
  private readonly listAssets;
  private readonly clearAssets;
  private readonly report;
  private id = 0;
  private job: Job | undefined;
  private source: Source | undefined;
  private assets = new Set<string>();

  constructor(rows: Rows, dead: DeadLetters) {
    const { db } = rows;
    this.rows = rows;
    this.dead = dead;
    this.oldest = db.prepare<[], [id: number, job: string]>('SELECT id, job FROM spool_salvage ORDER BY id').raw();
    this.add = db.prepare('INSERT INTO spool_salvage (job) VALUES (?)');
    this.save = db.prepare('UPDATE spool_salvage SET job = ? WHERE id = ?');
    this.end = db.prepare('DELETE FROM spool_salvage WHERE id = ?');
    this.addAsset = db.prepare('INSERT OR IGNORE INTO spool_salvage_assets VALUES (?)');
    this.listAssets = db.prepare<[], string>('SELECT asset FROM spool_salvage_assets').pluck();
    this.clearAssets = db.prepare('DELETE FROM spool_salvage_assets');
    this.report = db.prepare('INSERT INTO spool_damage (report) VALUES (?)');
    this.load();
  }

  /** Numbers that are still to be looked at, at least 1 while there is anything to do. */
  get left(): number {
    const { job } = this;
    return job ? Math.max(1, (job.tail ?? 0) - job.after) : 0;
  }

  /** For a start on a damaged file, into new and empty tables; `sparing` brings over no rows. Not inside a transaction. */
  begin(old: Database | undefined, damage: Damage, sparing: boolean): void {
    const { db } = this.rows;
    if (old) {
      // Of an earlier damage, which has not been told or not been read to its end.
      for (const table of ['spool_damage', 'spool_salvage', 'spool_salvage_assets']) copyTable(old, db, table);
    }
    const state = old && attempt(() => old.prepare('SELECT * FROM spool_state').get() as Record<string, unknown>);
    const aliveAt = numberOr(state?.alive_at, null);
    if (old) this.buryLetters(old, aliveAt);
    const job: Job = {
      damage,
      file: old ? join(basename(damage.folder), basename(old.name)) : null,
      epoch: typeof state?.epoch === 'string' ? state.epoch : null,
      rows: numberOr(state?.rows, null),
      aliveAt,
      tail: (old && sequenceOf(old)) ?? null,
      after: 0,
      salvaged: 0,
      seen: { ...NOTHING_SEEN },
    };
    const id = this.add.run(JSON.stringify(job)).lastInsertRowid;
    this.load();
    const source = { rows: old ? rowsOf(old, job) : [].values(), close: () => {} };
    const commit = db.transaction((current: Job) => {
      this.step(START_STEP);
      // Whatever came after that is missing, and so is what would have come while the gateway was down.
      this.rows.state.aliveAt = aliveAt ?? (current.seen.lastAt || this.rows.state.aliveAt);
      this.rows.changed();
      this.rows.save();
    });
    // One that waits for an earlier one to be done is read while the gateway runs.
    for (let left = sparing ? 0 : START_ROWS; left > 0 && this.job && this.id === id; left -= START_STEP.rows) {
      this.source = source;
      commit(this.job);
    }
    this.source = undefined;
  }

  /** Brings over some more, in the running transaction. Returns `left`. */
  step(limit: Step = LATER_STEP): number {
    const { job, rows } = this;
    if (!job) return 0;
    this.source ??= this.open(job);
    const { aliveAt } = rows.state;
    let [count, bytes, misses] = [0, 0, 0];
    let isAtEnd = false;
    while (!isAtEnd && count < limit.rows && bytes < limit.bytes && misses < limit.misses) {
      const { value: row, done } = this.source.rows.next();
      if (done) isAtEnd = true;
      else if (row === null) misses++;
      else {
        const [seq, ...values] = row as [number, ...unknown[]];
        job.after = seq;
        const input = values.slice(0, 8);
        if (!isRow(input) || !isSound(input, values[8] as number | null)) continue;
        rows.insert(...input);
        this.note(input[4]);
        pass(job.seen, seq, input[7]);
        job.salvaged++;
        count++;
        bytes += input[1].length;
      }
    }
    // They came in long ago.
    rows.state.aliveAt = aliveAt;
    if (isAtEnd) this.finish(job);
    else this.save.run(JSON.stringify(job), this.id);
    return this.left;
  }

  /** After a rollback only the file knows how far it is. */
  load(): void {
    this.source?.close();
    this.source = undefined;
    const [id, job] = this.oldest.get() ?? [0, undefined];
    this.id = id;
    this.job = job === undefined ? undefined : (JSON.parse(job) as Job);
    this.assets = new Set(this.job ? this.listAssets.all() : []);
  }

  private finish(job: Job): void {
    const { damage, epoch, salvaged, rows, tail, aliveAt, seen } = job;
    const missing = damage.lostCommits || rows === null ? null : Math.max(0, rows - salvaged);
    const times = { bornAt: epoch === null ? 0 : epochTime(epoch), aliveAt, now: Date.now() };
    const report: DamageReport = {
      ...damage,
      epoch,
      salvaged,
      missing,
      ...span(seen, missing, tail, times),
      assets: [...this.assets],
    };
    this.report.run(JSON.stringify(report));
    this.end.run(this.id);
    this.clearAssets.run();
    this.load();
  }

  private open(job: Job): Source {
    const { db } = this.rows;
    const old = job.file === null ? undefined : openQuarantined(join(dirname(db.name), job.file));
    if (!old) return { rows: [].values(), close: () => {} };
    return { rows: rowsOf(old, job), close: () => closeQuarantined(old) };
  }

  private note(asset: string | null): void {
    if (asset === null || this.assets.has(asset) || this.assets.size >= ASSETS_MAX) return;
    this.assets.add(asset);
    this.addAsset.run(asset);
  }

  private buryLetters(old: Database, aliveAt: number | null): void {
    const { rows, dead } = this;
    const bury = ([, ...letter]: Row) => {
      let seq = 0;
      tryWrite(() => {
        seq = rows.insertNow(...(letter.slice(0, 8) as unknown as InsertArgs));
      });
      if (seq > 0) dead.bury(seq, letter[8] as number, letter[9] as string);
      rows.state.aliveAt = aliveAt ?? rows.state.aliveAt;
    };
    inPieces(rows.db, readableRows(old, 'dead_letters', `${COLUMNS}, buried_at, reason`), bury, rows.save);
  }
}

function rowsOf(old: Database, { after, tail }: Job): Iterator<Row | null> {
  // Older files have none.
  const hasSums = attempt(() => old.prepare("SELECT 1 FROM pragma_table_info('spool') WHERE name = 'checksum'").get());
  return searchRows(old, 'spool', `${COLUMNS}, ${hasSums ? 'checksum' : 'NULL'}`, { after, upTo: tail ?? undefined });
}

/** The highest seq that the file has given. */
function sequenceOf(db: Database): number | undefined {
  return attempt(() => db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'spool'").pluck().get() as number);
}

/** What is damaged need not even have the type of its column. */
function isRow(row: readonly unknown[]): row is InsertArgs {
  const [topic, payload, props, flags, asset, metric, deviceTs, enqueuedAt] = row;
  const isText = (value: unknown) => typeof value === 'string';
  const isBytes = (value: unknown) => value instanceof Uint8Array;
  return (
    isText(topic) &&
    isBytes(payload) &&
    (props === null || isBytes(props)) &&
    Number.isSafeInteger(flags) &&
    (asset === null || isText(asset)) &&
    (metric === null || isText(metric)) &&
    (deviceTs === null || Number.isSafeInteger(deviceTs)) &&
    Number.isSafeInteger(enqueuedAt)
  );
}

function numberOr<T>(value: unknown, otherwise: T): number | T {
  return Number.isSafeInteger(value) ? (value as number) : otherwise;
}
