/**
 * The store's thread: owns the connection, runs one group per transaction, answers queries between groups. It holds no
 * queue of its own: the message port is the queue, so commits and queries happen in the order in which they were sent.
 */
import { parentPort, workerData } from 'node:worker_threads';
import type { Database } from 'better-sqlite3';
import { assert, assertNever } from '../lib/assert.js';
import { HoldfastError, messageOf, systemCodeOf } from '../lib/errors.js';
import { ArenaReader } from './arena.js';
import { Ballast } from './ballast.js';
import { markClosed, markOpen, migrate } from './database.js';
import { type Batch, buffersOf, type Failure, type Reply, type Request, type WorkerOptions } from './protocol.js';
import { isDamage, openSound, suspect } from './recovery.js';
import type { Damage, OpenTables, Operation, Query, Tables } from './tables.js';

/** Codes after which the file must not be written again: what reached the device is unknown. */
const FATAL = /^SQLITE_(IOERR|CORRUPT|NOTADB|CANTOPEN|READONLY|NOMEM)/;
/**
 * A file that is more than half empty is worth shrinking, in steps that hold the thread for about a millisecond. Below
 * this many pages the free ones are kept: the next rows will want them.
 */
const VACUUM_FREE_PAGES_MIN = 1_000;
const VACUUM_STEP_PAGES = 64;
const VACUUM_IDLE_MS = 50;
/** SQLite may refuse a row that needs several pages some pages before the limit. */
const LIMIT_MARGIN_PAGES = 64;

const port = parentPort;
assert(port, 'the store worker runs in a worker thread');

class StoreThread {
  private readonly db: Database;
  private readonly owners: OpenTables[] = [];
  private readonly operationNames: string[] = [];
  private readonly operations: Operation[] = [];
  private readonly queries = new Map<string, Query>();
  private readonly gaugeNames: string[] = [];
  private readonly begin;
  private readonly commit;
  private readonly rollback;
  private vacuumTimer: NodeJS.Timeout | undefined;
  private readonly options: WorkerOptions;
  private readonly lock: Database;
  private readonly damage: Damage | undefined;
  private readonly ballast: Ballast | undefined;
  /** The device, and not just the file's limit, is full: only what makes room is run. */
  private squeezed = false;
  /** The file says that it has a log. Nothing is committed before. */
  private marked = false;

  constructor(options: WorkerOptions, modules: readonly Tables[]) {
    this.options = options;
    const { db, lock, damage } = openSound(options, modules);
    this.db = db;
    this.lock = lock;
    this.damage = damage;
    if (options.pagesMax !== undefined) this.db.pragma(`max_page_count = ${options.pagesMax}`);
    if (options.ballastBytes !== undefined) this.ballast = new Ballast(options.path, options.ballastBytes);
    this.begin = this.db.prepare('BEGIN IMMEDIATE');
    this.commit = this.db.prepare('COMMIT');
    this.rollback = this.db.prepare('ROLLBACK');
    if (!this.mark()) {
      this.squeeze();
      this.mark();
    } else if (this.ballast?.restore() === false) this.squeezed = true;
    for (const module of modules) {
      migrate(this.db, module);
      const owner = module.open(this.db);
      this.owners.push(owner);
      for (const [name, operation] of Object.entries(owner.operations)) {
        this.operationNames.push(`${module.name}.${name}`);
        this.operations.push(operation);
      }
      for (const [name, query] of Object.entries(owner.queries)) this.queries.set(`${module.name}.${name}`, query);
      for (const name of Object.keys(owner.gauges?.() ?? {})) this.gaugeNames.push(`${module.name}.${name}`);
    }
    this.gaugeNames.push('store.pages', 'store.freePages');
  }

  opened(): Reply {
    const sqlite = this.db.prepare('SELECT sqlite_version()').pluck().get() as string;
    const { operationNames: operations, gaugeNames: gauges, damage } = this;
    const opened = { operations, gauges, sqlite, damage };
    return { kind: 'opened', opened, gauges: this.gauges() };
  }

  handle(request: Request): void {
    switch (request.kind) {
      case 'group':
        send(this.group(request.id, request.group, request.riders));
        this.vacuumTimer ??= setTimeout(() => this.vacuumWhileIdle(), VACUUM_IDLE_MS);
        return;
      case 'query':
        send(this.query(request.id, request.name, request.args));
        return;
      case 'close':
        this.close();
        send({ kind: 'closed', id: request.id });
        port?.close();
        return;
      default:
        assertNever(request, 'store request');
    }
  }

  private group(id: number, group: Batch | null, riders: Batch | null): Reply {
    if (this.squeezed && !this.relax()) return this.drain(id, group, riders);
    const results = new Float64Array(group?.operations ?? 0).fill(Number.NaN);
    const failures = new Map<number, Failure>();
    try {
      this.transaction(() => {
        if (riders) this.units(riders, undefined);
        if (group) this.units(group, results);
        this.vacuumStep();
      });
    } catch (error) {
      const failure = describe(error);
      if (FATAL.test(failure.code)) return this.failed(id, failure);
      if (isFull(failure)) return this.isAtLimit() ? this.full(id, group, riders) : this.drain(id, group, riders);
      const fatal = this.oneByOne(group, riders, results, failures);
      if (fatal) return this.failed(id, fatal);
    }
    return { kind: 'committed', id, results, failures, gauges: this.gauges() };
  }

  /**
   * Deletions are what makes room, so they get a transaction of their own first. Then as much of the group as fits, found
   * by halving: a group that is larger than the room there will ever be must not wait for all of it at once.
   */
  private full(id: number, group: Batch | null, riders: Batch | null): Reply {
    const results = new Float64Array(group?.operations ?? 0).fill(Number.NaN);
    let ridersLeft = riders;
    let left = group;
    try {
      if (riders) this.transaction(() => this.units(riders, undefined));
      ridersLeft = null;
      for (let share = left?.units ?? 0; left && left.units > 0 && share > 0; ) {
        const part: Batch = { ...left, units: Math.min(share, left.units) };
        const done = group ? group.operations - left.operations : 0;
        try {
          const [end, operations] = this.transaction(() => this.units(part, results.subarray(done)));
          left = { ...left, start: end, units: left.units - part.units, operations: left.operations - operations };
        } catch (error) {
          if (!isFull(describe(error))) throw error;
          share = Math.floor(part.units / 2);
        }
      }
    } catch (error) {
      const failure = describe(error);
      if (FATAL.test(failure.code)) return this.failed(id, failure);
      // Not even the deletions have room, so it is the device after all.
      if (isFull(failure) && ridersLeft) return this.drain(id, group, riders);
    }
    const done = (group?.units ?? 0) - (left?.units ?? 0);
    if (!ridersLeft && !left?.units)
      return { kind: 'committed', id, results, failures: new Map(), gauges: this.gauges() };
    return { kind: 'full', id, done, results, group: left, riders: ridersLeft, gauges: this.gauges() };
  }

  /**
   * The device is full. What is to be written waits; deletions are run, and the pages they free are given back, in the
   * space that the ballast has left. So the cloud's acknowledgements make room here, and so does whoever tidies up.
   */
  private drain(id: number, group: Batch | null, riders: Batch | null): Reply {
    this.squeeze();
    let left = riders;
    try {
      if (this.mark()) {
        if (riders) this.transaction(() => this.units(riders, undefined));
        left = null;
        this.giveBack();
      }
    } catch (error) {
      const failure = describe(error);
      if (FATAL.test(failure.code)) return this.failed(id, failure);
      if (!isFull(failure)) left = null;
    }
    if (!group && !left)
      return { kind: 'committed', id, results: NO_RESULTS(), failures: new Map(), gauges: this.gauges() };
    return { kind: 'full', id, done: 0, results: NO_RESULTS(), group, riders: left, gauges: this.gauges() };
  }

  private squeeze(): void {
    this.squeezed = true;
    this.ballast?.release();
  }

  /** Returns whether there is room again. Without a ballast it is simply tried. */
  private relax(): boolean {
    this.squeezed = !this.mark() || this.ballast?.restore() === false;
    return !this.squeezed;
  }

  private mark(): boolean {
    if (this.marked) return true;
    try {
      markOpen(this.db, this.options);
      this.marked = true;
    } catch (error) {
      if (!isFull(describe(error))) throw error;
    }
    return this.marked;
  }

  /** Every free page, step by step, so that no step needs more log than the ballast has left. */
  private giveBack(): void {
    for (let before = Number.POSITIVE_INFINITY; ; ) {
      this.db.pragma('wal_checkpoint(PASSIVE)');
      const free = this.db.pragma('freelist_count', { simple: true }) as number;
      if (free === 0 || free >= before) return;
      before = free;
      this.db.pragma(`incremental_vacuum(${VACUUM_STEP_PAGES})`);
    }
  }

  private isAtLimit(): boolean {
    const { pagesMax } = this.options;
    if (!this.ballast || pagesMax === undefined) return true;
    return (this.db.pragma('page_count', { simple: true }) as number) >= pagesMax - LIMIT_MARGIN_PAGES;
  }

  private failed(id: number, failure: Failure): Reply {
    if (isDamage(failure)) suspect(this.options.path, failure.message);
    return { kind: 'failed', id, failure };
  }

  private close(): void {
    clearTimeout(this.vacuumTimer);
    try {
      markClosed(this.db);
    } catch {
      // No space for it: the log stays beside the file, as after a crash, and nothing is lost.
    }
    this.db.close();
    this.lock.close();
  }

  /** One bad statement must not fail its neighbours: again, each unit in a transaction of its own. */
  private oneByOne(
    group: Batch | null,
    riders: Batch | null,
    results: Float64Array,
    failures: Map<number, Failure>,
  ): Failure | undefined {
    for (const [batch, into] of [
      [riders, undefined],
      [group, results],
    ] as const) {
      if (!batch) continue;
      const reader = new ArenaReader(batch.buffer, batch.start);
      for (let unit = 0, at = 0; unit < batch.units; unit++) {
        const start = reader.offset;
        try {
          at = this.transaction(() => this.unit(reader, into, at));
        } catch (error) {
          const failure = describe(error);
          if (FATAL.test(failure.code)) return failure;
          reader.seek(start);
          at = this.skip(reader, into, at);
          if (into) failures.set(unit, failure);
        }
      }
    }
    return undefined;
  }

  private transaction<T>(body: () => T): T {
    this.begin.run();
    try {
      const value = body();
      for (const owner of this.owners) owner.beforeCommit?.();
      this.commit.run();
      return value;
    } catch (error) {
      // SQLite rolls back by itself after some errors (no space, I/O).
      if (this.db.inTransaction) this.rollback.run();
      if (!FATAL.test(describe(error).code)) for (const owner of this.owners) owner.afterRollback?.();
      throw error;
    }
  }

  /** Returns where in the buffer it ended, and how many operations there were. */
  private units(batch: Batch, results: Float64Array | undefined): [end: number, operations: number] {
    const reader = new ArenaReader(batch.buffer, batch.start);
    let at = 0;
    for (let unit = 0; unit < batch.units; unit++) at = this.unit(reader, results, at);
    return [reader.offset, at];
  }

  private unit(reader: ArenaReader, results: Float64Array | undefined, at: number): number {
    let skipping = false;
    for (let left = reader.count(); left > 0; left--, at++) {
      const operation = this.operations[reader.byte()];
      const guard = reader.byte() === 1;
      const args: unknown[] = [];
      for (let n = reader.byte(); n > 0; n--) args.push(reader.value());
      if (skipping) continue;
      assert(operation, 'a unit names a known operation');
      const result = operation(...(args as never[]));
      if (results) results[at] = result ?? Number.NaN;
      skipping = guard && result === 0;
    }
    return at;
  }

  private skip(reader: ArenaReader, results: Float64Array | undefined, at: number): number {
    for (let left = reader.count(); left > 0; left--, at++) {
      reader.byte();
      reader.byte();
      for (let n = reader.byte(); n > 0; n--) reader.value();
      if (results) results[at] = Number.NaN;
    }
    return at;
  }

  private query(id: number, name: string, args: readonly unknown[]): Reply {
    const query = this.queries.get(name);
    try {
      assert(query, 'a query has a known name', { name });
      const value = query(...(args as never[]));
      return { kind: 'answer', id, value, gauges: this.gauges() };
    } catch (error) {
      const failure = describe(error);
      return FATAL.test(failure.code) ? this.failed(id, failure) : { kind: 'refused', id, failure };
    }
  }

  /** Gives pages of deleted rows back to the file system, a little at a time. */
  private vacuumStep(): boolean {
    const free = this.db.pragma('freelist_count', { simple: true }) as number;
    if (free < VACUUM_FREE_PAGES_MIN) return false;
    if (free < (this.db.pragma('page_count', { simple: true }) as number) / 2) return false;
    this.db.pragma(`incremental_vacuum(${VACUUM_STEP_PAGES})`);
    return true;
  }

  private vacuumWhileIdle(): void {
    this.vacuumTimer = undefined;
    try {
      if (this.vacuumStep()) this.vacuumTimer = setTimeout(() => this.vacuumWhileIdle(), 1);
    } catch {
      // No space for the step, or a device error: the next commit meets it and answers for it.
    }
  }

  private gauges(): Float64Array {
    const values: number[] = [];
    for (const owner of this.owners) values.push(...Object.values(owner.gauges?.() ?? {}));
    values.push(this.db.pragma('page_count', { simple: true }) as number);
    values.push(this.db.pragma('freelist_count', { simple: true }) as number);
    return Float64Array.from(values);
  }
}

function isFull({ code }: Failure): boolean {
  return code.startsWith('SQLITE_FULL');
}

const NO_RESULTS = () => new Float64Array(0);

function describe(error: unknown): Failure {
  return { code: systemCodeOf(error) ?? 'ERROR', message: messageOf(error) };
}

function send(reply: Reply): void {
  port?.postMessage(reply, transferOf(reply));
}

/** Large answers change hands instead of being copied. */
function transferOf(reply: Reply): ArrayBuffer[] {
  switch (reply.kind) {
    case 'committed':
      return [reply.results.buffer as ArrayBuffer];
    case 'full':
      return [reply.results.buffer as ArrayBuffer, ...buffersOf(reply.group, reply.riders)];
    case 'answer':
      return reply.value instanceof ArrayBuffer ? [reply.value] : [];
    default:
      return [];
  }
}

const options = workerData as WorkerOptions;
try {
  const modules: Tables[] = [];
  for (const url of options.tables) modules.push(((await import(url)) as { tables: Tables }).tables);
  const thread = new StoreThread(options, modules);
  port.on('message', (request: Request) => thread.handle(request));
  send(thread.opened());
} catch (error) {
  // Met in a file that is too large to be looked through at every start.
  if (isDamage(error)) suspect(options.path, messageOf(error));
  send({ kind: 'broken', failure: describe(error), hint: error instanceof HoldfastError ? error.hint : undefined });
}
