/**
 * The store's thread: owns the connection, runs one group per transaction, answers queries between groups. It holds no
 * queue of its own: the message port is the queue, so commits and queries happen in the order in which they were sent.
 */
import { resolve } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import type { Database } from 'better-sqlite3';
import { assert, assertNever } from '../lib/assert.js';
import { HoldfastError, messageOf, systemCodeOf } from '../lib/errors.js';
import { markIfIoError } from '../lib/sqlite-io-error.js';
import { ArenaReader } from './arena.js';
import { Checkpoints } from './checkpoints.js';
import { migrate, openDatabase } from './database.js';
import { type Batch, buffersOf, type Failure, type Reply, type Request, type WorkerOptions } from './protocol.js';
import type { OpenTables, Operation, Query, Tables } from './tables.js';

/** Codes after which the file must not be written again: what reached the device is unknown. */
const FATAL = /^SQLITE_(IOERR|CORRUPT|NOTADB|CANTOPEN|READONLY|NOMEM)/;
/**
 * A file that is more than half empty is worth shrinking, in steps that hold the thread for about a millisecond. Below
 * this many pages the free ones are kept: the next rows will want them.
 */
const VACUUM_FREE_PAGES_MIN = 1_000;
const VACUUM_STEP_PAGES = 64;
const VACUUM_IDLE_MS = 50;

const port = parentPort;
assert(port, 'the store worker runs in a worker thread');

class StoreThread {
  private readonly db: Database;
  private readonly path: string;
  private readonly checkpoints: Checkpoints;
  private readonly owners: OpenTables[] = [];
  private readonly operationNames: string[] = [];
  private readonly operations: Operation[] = [];
  private readonly queries = new Map<string, Query>();
  private readonly gaugeNames: string[] = [];
  private readonly begin;
  private readonly commit;
  private readonly rollback;
  private readonly pageCount;
  private readonly freePages;
  private vacuumTimer: NodeJS.Timeout | undefined;
  private healed = false;
  private hasFailed = false;

  constructor(options: WorkerOptions, modules: readonly Tables[]) {
    this.path = resolve(options.path);
    this.db = openDatabase({
      path: this.path,
      busyTimeoutMs: options.busyTimeoutMs,
      onHealed: () => {
        this.healed = true;
      },
    });
    this.checkpoints = new Checkpoints(this.db, options.logPagesMax);
    if (options.pagesMax !== undefined) this.db.pragma(`max_page_count = ${options.pagesMax}`);
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
    this.begin = this.db.prepare('BEGIN IMMEDIATE');
    this.commit = this.db.prepare('COMMIT');
    this.rollback = this.db.prepare('ROLLBACK');
    this.pageCount = this.db.prepare('PRAGMA page_count').pluck();
    this.freePages = this.db.prepare('PRAGMA freelist_count').pluck();
  }

  opened(): Reply {
    const sqlite = this.db.prepare('SELECT sqlite_version()').pluck().get() as string;
    const opened = { operations: this.operationNames, gauges: this.gaugeNames, sqlite, healed: this.healed };
    return { kind: 'opened', opened, gauges: this.gauges() };
  }

  handle(request: Request): void {
    if (this.hasFailed) return;
    switch (request.kind) {
      case 'group':
        this.reply(this.group(request.id, request.group, request.riders));
        // Whoever waits for the commit need not wait for this.
        this.orFail(() => this.checkpoints.whenDue());
        this.vacuumTimer ??= setTimeout(() => this.vacuumWhileIdle(), VACUUM_IDLE_MS);
        return;
      case 'query':
        this.reply(this.query(request.id, request.name, request.args));
        return;
      case 'close':
        clearTimeout(this.vacuumTimer);
        this.orFail(() => this.checkpoints.now());
        if (this.hasFailed) return;
        this.db.close();
        this.reply({ kind: 'closed', id: request.id });
        port?.close();
        return;
      default:
        assertNever(request, 'store request');
    }
  }

  private reply(reply: Reply): void {
    if (reply.kind === 'failed') {
      this.hasFailed = true;
      clearTimeout(this.vacuumTimer);
      markIfIoError(this.path, reply.failure);
    }
    send(reply);
  }

  /** For work that nobody waits for. Other errors than fatal ones come again with the next commit, which answers for them. */
  private orFail(work: () => void): void {
    if (this.hasFailed) return;
    try {
      work();
    } catch (error) {
      const failure = describe(error);
      if (FATAL.test(failure.code)) this.reply({ kind: 'failed', failure });
    }
  }

  private group(id: number, group: Batch | null, riders: Batch | null): Reply {
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
      if (FATAL.test(failure.code)) return { kind: 'failed', failure };
      if (failure.code.startsWith('SQLITE_FULL')) return this.full(id, group, riders);
      const fatal = this.oneByOne(group, riders, results, failures);
      if (fatal) return { kind: 'failed', failure: fatal };
    }
    return this.committed(id, results, failures, group);
  }

  private committed(id: number, results: Float64Array, failures: Map<number, Failure>, group: Batch | null): Reply {
    const gauges = this.gauges();
    return {
      kind: 'committed',
      id,
      results,
      failures: failures.size > 0 ? failures : null,
      gauges,
      spent: group?.buffer ?? null,
    };
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
          if (!describe(error).code.startsWith('SQLITE_FULL')) throw error;
          share = Math.floor(part.units / 2);
        }
      }
    } catch (error) {
      const failure = describe(error);
      if (FATAL.test(failure.code)) return { kind: 'failed', failure };
    }
    const done = (group?.units ?? 0) - (left?.units ?? 0);
    if (!ridersLeft && !left?.units) return this.committed(id, results, new Map(), group);
    return { kind: 'full', id, done, results, group: left, riders: ridersLeft, gauges: this.gauges() };
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
      return FATAL.test(failure.code) ? { kind: 'failed', failure } : { kind: 'refused', id, failure };
    }
  }

  /** Gives pages of deleted rows back to the file system, a little at a time. */
  private vacuumStep(): boolean {
    const free = this.freePages.get() as number;
    if (free < VACUUM_FREE_PAGES_MIN) return false;
    if (free < (this.pageCount.get() as number) / 2) return false;
    this.db.pragma(`incremental_vacuum(${VACUUM_STEP_PAGES})`);
    return true;
  }

  private vacuumWhileIdle(): void {
    this.vacuumTimer = undefined;
    this.orFail(() => {
      if (!this.vacuumStep()) return;
      this.checkpoints.whenDue();
      this.vacuumTimer = setTimeout(() => this.vacuumWhileIdle(), 1);
    });
  }

  private gauges(): Float64Array {
    const values: number[] = [];
    for (const owner of this.owners) values.push(...Object.values(owner.gauges?.() ?? {}));
    values.push(this.pageCount.get() as number, this.freePages.get() as number);
    return Float64Array.from(values);
  }
}

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
      return [reply.results.buffer as ArrayBuffer, ...(reply.spent ? [reply.spent] : [])];
    case 'full':
      return [reply.results.buffer as ArrayBuffer, ...buffersOf(reply.group, reply.riders)];
    case 'answer':
      return reply.value instanceof ArrayBuffer ? [reply.value] : [];
    default:
      return [];
  }
}

try {
  const options = workerData as WorkerOptions;
  const modules: Tables[] = [];
  for (const url of options.tables) modules.push(((await import(url)) as { tables: Tables }).tables);
  const thread = new StoreThread(options, modules);
  port.on('message', (request: Request) => thread.handle(request));
  send(thread.opened());
} catch (error) {
  markIfIoError(resolve((workerData as WorkerOptions).path), error);
  send({ kind: 'broken', failure: describe(error), hint: error instanceof HoldfastError ? error.hint : undefined });
}
