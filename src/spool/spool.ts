/**
 * The durable queue between the plant and the cloud. A row is in it before its message is acknowledged to whoever sent it,
 * and leaves it only when the cloud has acknowledged it. Everything goes through here, at all times: there is no path
 * beside the disk that an outage could switch off.
 */
import { assert } from '../lib/assert.js';
import type { Clock } from '../lib/clock.js';
import { HoldfastError } from '../lib/errors.js';
import type { Epoch, Millis, Seq } from '../model/ids.js';
import type { SpoolInput, SpoolRow } from '../model/row.js';
import { ArenaReader } from '../store/arena.js';
import type { Store, UnitDone } from '../store/store.js';
import type { Op } from '../store/tables.js';
import type { DeadLetter } from './dead-letters.js';
import { flagsOf, fromFlags } from './flags.js';
import type { DamageReport } from './salvage.js';

export type { DamageReport, Op, UnitDone };

const PAGE_BYTES = 4096;

export interface SpoolStats {
  readonly epoch: Epoch;
  /** Rows that the cloud has not acknowledged, and the bytes of their payloads and properties. */
  readonly rows: number;
  readonly bytes: number;
  /** Since the file was made; `received = rows + acknowledged + dropped + dead`, exactly. */
  readonly received: number;
  readonly acknowledged: number;
  /** Rows given up because the spool was full; gap records and lost ranges say which. */
  readonly dropped: number;
  /** Rows that the cloud can never take, set aside with a reason. */
  readonly dead: number;
  /** The above holds, and the table has not been seen to disagree with it. */
  readonly balanced: boolean;
  /** Bytes of all rows that have come since the start of the process. */
  readonly bytesIn: number;
  /** Seq of the oldest row; one past `tail` when there is none. */
  readonly head: Seq;
  /** Highest seq ever given. */
  readonly tail: Seq;
  readonly oldestAt: Millis | null;
  readonly oldestAgeMs: number;
  /** Size of the file, and how much of it is free for the next rows. */
  readonly fileBytes: number;
  readonly freeBytes: number;
}

export interface Reading {
  readonly rows: SpoolRow[];
  readonly lost: LostSeqs[];
  readonly unsound: Seq[];
}

export interface LostSeqs {
  readonly from: Seq;
  readonly to: Seq;
  readonly reason: string;
}

export interface PreviousLife {
  /** When the newest row before this start came in; when the file was made, if there was none. */
  readonly aliveAt: Millis;
  /** Set when the last run closed the spool in order. */
  readonly closedAt: Millis | null;
}

export class Spool {
  /** To be opened by the store. */
  static readonly tables = new URL('./tables.js', import.meta.url);

  private readonly store: Store;
  private readonly clock: Clock;
  private readonly insert: number;
  private readonly delete: number;
  /** Riders of either kind that have been sent since the start. */
  private readonly sent = { drops: 0, burials: 0 };
  private lastBurial: Promise<unknown> = Promise.resolve();
  readonly epoch: Epoch;
  readonly previous: PreviousLife;

  private constructor(store: Store, clock: Clock, about: PreviousLife & { epoch: Epoch }) {
    this.store = store;
    this.clock = clock;
    this.epoch = about.epoch;
    this.previous = { aliveAt: about.aliveAt, closedAt: about.closedAt };
    this.insert = store.operation('spool.insert');
    this.delete = store.operation('spool.acknowledge');
  }

  static async open(store: Store, clock: Clock): Promise<Spool> {
    return new Spool(store, clock, await store.query('spool.about'));
  }

  /** The row of a message, as an operation of a unit that may hold more than this row. */
  row(input: SpoolInput & { readonly enqueuedAt?: Millis }): Op {
    const { topic, payload, props, asset, metric, deviceTs } = input;
    return {
      op: this.insert,
      args: [topic, payload, props, flagsOf(input), asset, metric, deviceTs, this.clock.now()],
    };
  }

  /**
   * Makes a message's row durable together with whatever else must be: the operations of the unit come first, then the
   * row (none for a message that is not bridged). `done` follows the rules of `Store.submit`, and for a row there is more
   * than the store's word: without an error it has its seq, or a guard among the operations has said that it is there.
   */
  submit(operations: readonly Op[], input: SpoolInput | null, done: UnitDone): void {
    if (!input) {
      this.store.submit(operations, done);
      return;
    }
    this.store.submit([...operations, this.row(input)], (error, results, at) => {
      const hasSeq = error !== null || (results[at + operations.length] as number) > 0;
      const isKnown = hasSeq || operations.some(({ guard }, n) => guard && results[at + n] === 0);
      done(isKnown ? error : new HoldfastError('spool.io', 'the row was given no seq'), results, at);
    });
  }

  /** Resolves with the rows' seqs once all of them are durable; all or none. */
  async enqueue(inputs: readonly (SpoolInput & { readonly enqueuedAt?: Millis })[]): Promise<Seq[]> {
    return (await this.store.commit(inputs.map((input) => this.row(input)))) as Seq[];
  }

  /**
   * Rows with `seq > after` in order: at most `rowsMax`, and at most `bytesMax` unless one row alone is larger. Only
   * committed rows are seen. Payloads are views of one buffer that this answer owns. `lost` are the ranges of seqs before
   * the last row that will never come, or all of them when there are no rows. `unsound` are rows that are not what was
   * written: they are to be set aside.
   */
  async read(after: Seq, rowsMax: number, bytesMax: number): Promise<Reading> {
    const reader = new ArenaReader(await this.store.query<ArrayBuffer>('spool.peek', after, rowsMax, bytesMax));
    const rows: SpoolRow[] = [];
    const unsound: Seq[] = [];
    let previous: number = after;
    for (let seq = reader.value(); seq !== null; seq = reader.value()) {
      assert((seq as number) > previous, 'rows are read in the order of their seq', { seq, previous });
      previous = seq as number;
      const row = readRow(seq as Seq, reader);
      if (reader.value() === 1) rows.push(row);
      else unsound.push(row.seq);
    }
    const lost: LostSeqs[] = [];
    for (let from = reader.value(); from !== null; from = reader.value())
      lost.push({ from: from as Seq, to: reader.value() as Seq, reason: reader.value() as string });
    return { rows, lost, unsound };
  }

  /** The rows of `read`. */
  async peek(after: Seq, rowsMax: number, bytesMax: number): Promise<SpoolRow[]> {
    return (await this.read(after, rowsMax, bytesMax)).rows;
  }

  /**
   * Deletes every row up to and including `upTo`, which the cloud has acknowledged. The deletion rides in the next
   * transaction; if a crash comes first the rows are sent again and absorbed there as duplicates.
   */
  acknowledge(upTo: Seq): void {
    assert(upTo <= this.store.gauge('spool.tail'), 'only rows that exist are acknowledged', { upTo });
    this.store.ride({ op: this.delete, args: [upTo] });
  }

  /**
   * Moves a row that the cloud can never take to the dead letters, durably. It rides, because on a full device everything
   * behind it waits for it to go. Resolves with whether it was there; throws `spool.closed` or `spool.io`.
   */
  bury(seq: Seq, reason: string): Promise<boolean> {
    const burial = async () => {
      const buried = this.gauge('buried');
      await this.ride('burials', { op: this.store.operation('spool.bury'), args: [seq, this.clock.now(), reason] });
      return this.gauge('buried') > buried;
    };
    const done = this.lastBurial.then(burial, burial);
    this.lastBurial = done.catch(() => {});
    return done;
  }

  /** The newest dead letters, oldest first. */
  async dead(max: number): Promise<{ seq: Seq; reason: string; topic: string; bytes: number; buriedAt: Millis }[]> {
    const letters = await this.store.query<DeadLetter[]>('spool.dead', max);
    return letters.reverse().map(([seq, reason, topic, bytes, buriedAt]) => ({
      seq: seq as Seq,
      reason,
      topic,
      bytes,
      buriedAt: buriedAt as Millis,
    }));
  }

  /** Puts a dead letter back at the end of the queue, durably. Resolves with its new seq, or null when there is none. */
  async requeue(seq: Seq): Promise<Seq | null> {
    const op = this.store.operation('spool.requeue');
    const [fresh] = await this.store.commit([{ op, args: [seq, this.clock.now()] }]);
    return fresh === 0 ? null : (fresh as Seq);
  }

  /**
   * Gives up the oldest droppable rows after `after` that make up `bytes`, and writes down the gap. It rides, so that it
   * works on a full device, too. Resolves with how many rows that were; throws `spool.closed` or `spool.io`.
   */
  async drop(after: Seq, bytes: number): Promise<number> {
    const dropped = this.gauge('dropped');
    await this.ride('drops', { op: this.store.operation('spool.drop'), args: [after, bytes, this.clock.now()] });
    return this.gauge('dropped') - dropped;
  }

  /** Resolves when the rider has run, in the order in which they were sent. */
  private async ride(kind: 'drops' | 'burials', op: Op): Promise<void> {
    const turn = ++this.sent[kind];
    this.store.ride(op);
    this.store.hasten();
    while (this.gauge(kind) < turn) {
      if (this.store.ended) throw this.store.ended;
      await this.store.changed();
    }
  }

  /** Numbers of a damaged file that are still to be looked at; 0 when there is nothing to salvage. */
  get toSalvage(): number {
    return this.gauge('toSalvage');
  }

  /** Brings over some more of a damaged file, durably. Resolves with `toSalvage`; at 0 there is a report to be told. */
  async salvage(): Promise<number> {
    return (await this.store.commit([{ op: this.store.operation('spool.salvage'), args: [] }]))[0] ?? 0;
  }

  /** What damage took from an earlier file that has been read to its end, until `tellDamage`; the oldest one first. */
  async damage(): Promise<{ id: number; report: DamageReport } | undefined> {
    const found = await this.store.query<[number, string] | undefined>('spool.damage');
    return found && { id: found[0], report: JSON.parse(found[1]) as DamageReport };
  }

  /** Puts the gap records about it into the queue, durably, and only once. */
  async tellDamage(id: number, gaps: readonly SpoolInput[]): Promise<void> {
    const told: Op = { op: this.store.operation('spool.damageTold'), args: [id], guard: true };
    await this.store.commit([told, ...gaps.map((gap) => this.row(gap))]);
  }

  /**
   * Spools what has been counted since the last time, for the cloud to hold its store against: of hours that are over or
   * have got many readings, or with `all` of every hour. Resolves with how many rows that took.
   */
  async tally(now: Millis, all = false): Promise<number> {
    return (await this.store.commit([{ op: this.store.operation('spool.tally'), args: [now, all ? 1 : 0] }]))[0] ?? 0;
  }

  /** Resolves when rows may have come or gone since the call. */
  changed(): Promise<void> {
    return this.store.changed();
  }

  private gauge(name: string): number {
    return this.store.gauge(`spool.${name}`);
  }

  /** Highest seq that is durable: rows after it are not to be seen yet. */
  get tail(): Seq {
    return this.store.gauge('spool.tail') as Seq;
  }

  /** Bytes of the file that hold something: what the ceiling is compared with. */
  get usedBytes(): number {
    return (this.store.gauge('store.pages') - this.store.gauge('store.freePages')) * PAGE_BYTES;
  }

  /** Bytes of the file that hold nothing. */
  get freeBytes(): number {
    return this.store.gauge('store.freePages') * PAGE_BYTES;
  }

  /** Costs nothing: the totals are kept with the rows, and travel with every answer of the store. */
  async stats(): Promise<SpoolStats> {
    const { store } = this;
    const [rows, received, acknowledged] = [this.gauge('rows'), this.gauge('received'), this.gauge('acknowledged')];
    const [dropped, dead] = [this.gauge('dropped'), this.gauge('dead')];
    const oldestAt = this.gauge('oldestAt');
    return {
      epoch: this.epoch,
      rows,
      bytes: this.gauge('bytes'),
      received,
      acknowledged,
      dropped,
      dead,
      balanced: received === rows + acknowledged + dropped + dead && this.gauge('strays') === 0,
      bytesIn: this.gauge('bytesIn'),
      head: this.gauge('head') as Seq,
      tail: this.gauge('tail') as Seq,
      oldestAt: Number.isNaN(oldestAt) ? null : (oldestAt as Millis),
      oldestAgeMs: Number.isNaN(oldestAt) ? 0 : Math.max(0, this.clock.now() - oldestAt),
      fileBytes: store.gauge('store.pages') * PAGE_BYTES,
      freeBytes: this.freeBytes,
    };
  }

  /** Notes in the file that this run ended in order, unless there is no room for it. The store is closed by its owner. */
  async close(): Promise<void> {
    let isNoted = false;
    const noted = () => {
      isNoted = true;
    };
    const note = this.store.commit([{ op: this.store.operation('spool.close'), args: [this.clock.now()] }]);
    const done = note.then(noted, noted);
    while (!isNoted && this.store.state === 'open') await Promise.race([done, this.store.changed()]);
  }
}

function readRow(seq: Seq, reader: ArenaReader): SpoolRow {
  const topic = reader.value() as string;
  const payload = reader.value() as Uint8Array;
  const props = reader.value() as Uint8Array | null;
  const { qos, retain, type } = fromFlags(reader.value() as number);
  return {
    seq,
    topic,
    payload,
    props,
    qos,
    retain,
    type,
    asset: reader.value() as string | null,
    metric: reader.value() as string | null,
    deviceTs: reader.value() as Millis | null,
    enqueuedAt: reader.value() as Millis,
  };
}
