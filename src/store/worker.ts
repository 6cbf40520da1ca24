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
import { markClosed, migrate } from './database.js';
import { isFullError, unlessFull } from './full.js';
import { type Batch, buffersOf, type Failure, type Reply, type Request, type WorkerOptions } from './protocol.js';
import { isDamage, openSound, suspect } from './recovery.js';
import { Space } from './space.js';
import type { Damage, OpenTables, Query, Tables } from './tables.js';
import { Units } from './units.js';

/** Codes after which the file must not be written again: what reached the device is unknown. */
const FATAL = /^SQLITE_(IOERR|CORRUPT|NOTADB|CANTOPEN|READONLY|NOMEM)/;
const VACUUM_IDLE_MS = 50;

const port = parentPort;
assert(port, 'the store worker runs in a worker thread');

class StoreThread {
  private readonly db: Database;
  private readonly path: string;
  private readonly lock: Database;
  private readonly damage: Damage | undefined;
  private readonly healed: boolean;
  private readonly checkpoints: Checkpoints;
  private readonly owners: OpenTables[] = [];
  private readonly operationNames: string[] = [];
  private readonly units = new Units();
  private readonly space: Space;
  private readonly queries = new Map<string, Query>();
  private readonly gaugeNames: string[] = [];
  private readonly begin;
  private readonly commit;
  private readonly rollback;
  private vacuumTimer: NodeJS.Timeout | undefined;
  private hasFailed = false;

  constructor(options: WorkerOptions, modules: readonly Tables[]) {
    this.path = resolve(options.path);
    const { db, lock, damage, healed } = openSound(options, modules);
    this.db = db;
    this.lock = lock;
    this.damage = damage;
    this.healed = healed;
    this.checkpoints = new Checkpoints(this.db, options.logPagesMax);
    this.space = new Space(this.db, this.path, options);
    this.begin = this.db.prepare('BEGIN IMMEDIATE');
    this.commit = this.db.prepare('COMMIT');
    this.rollback = this.db.prepare('ROLLBACK');
    try {
      this.openTables(modules);
    } catch (error) {
      this.giveUp(describe(error));
      db.close();
      lock.close();
      throw error;
    }
  }

  private openTables(modules: readonly Tables[]): void {
    this.space.settle();
    for (const module of modules) {
      migrate(this.db, module);
      const owner = module.open(this.db);
      this.owners.push(owner);
      for (const [name, operation] of Object.entries(owner.operations)) {
        this.operationNames.push(`${module.name}.${name}`);
        this.units.operations.push(operation);
      }
      for (const [name, query] of Object.entries(owner.queries)) this.queries.set(`${module.name}.${name}`, query);
      for (const name of Object.keys(owner.gauges?.() ?? {})) this.gaugeNames.push(`${module.name}.${name}`);
    }
    this.gaugeNames.push('store.pages', 'store.freePages');
  }

  opened(): Reply {
    const sqlite = this.db.prepare('SELECT sqlite_version()').pluck().get() as string;
    const { operationNames: operations, gaugeNames: gauges, healed, damage } = this;
    const opened = { operations, gauges, sqlite, healed, damage };
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
        // No space for the mark: the log stays beside the file, as after a crash, and nothing is lost.
        this.orFail(() => unlessFull(() => markClosed(this.db)));
        this.orFail(() => this.checkpoints.now());
        if (this.hasFailed) return;
        this.db.close();
        this.lock.close();
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
      this.giveUp(reply.failure);
    }
    send(reply);
  }

  /** The connection is closed with the thread, which takes the log away: the next start must not miss it. */
  private giveUp(failure: Failure): void {
    leaveWord(this.path, failure);
    if (failure.code.startsWith('SQLITE_IOERR')) return;
    try {
      markClosed(this.db);
    } catch (error) {
      leaveWord(this.path, describe(error));
    }
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
    try {
      if (this.space.isSqueezed && !this.space.relax()) return this.drain(id, group, riders);
    } catch (error) {
      const failure = describe(error);
      return FATAL.test(failure.code) ? { kind: 'failed', failure } : this.drain(id, group, riders);
    }
    const results = new Float64Array(group?.operations ?? 0).fill(Number.NaN);
    const failures = new Map<number, Failure>();
    try {
      this.transaction(() => {
        if (riders) this.units.run(riders);
        if (group) this.units.run(group, results);
        this.space.vacuumStep();
      });
    } catch (error) {
      const failure = describe(error);
      if (FATAL.test(failure.code)) return { kind: 'failed', failure };
      if (isFullError(error))
        return this.space.isAtLimit ? this.full(id, group, riders) : this.drain(id, group, riders);
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
      if (riders) this.transaction(() => this.units.run(riders));
      ridersLeft = null;
      for (let share = left?.units ?? 0; left && left.units > 0 && share > 0; ) {
        const part: Batch = { ...left, units: Math.min(share, left.units) };
        const done = group ? group.operations - left.operations : 0;
        try {
          const [end, operations] = this.transaction(() => this.units.run(part, results.subarray(done)));
          left = { ...left, start: end, units: left.units - part.units, operations: left.operations - operations };
        } catch (error) {
          if (!isFullError(error)) throw error;
          share = Math.floor(part.units / 2);
        }
      }
    } catch (error) {
      const failure = describe(error);
      if (FATAL.test(failure.code)) return { kind: 'failed', failure };
      // Not even the deletions have room, so it is the device after all.
      if (isFullError(error) && ridersLeft) return this.drain(id, group, riders);
    }
    const done = (group?.units ?? 0) - (left?.units ?? 0);
    if (!ridersLeft && !left?.units) return this.committed(id, results, new Map(), group);
    return { kind: 'full', id, done, results, group: left, riders: ridersLeft, gauges: this.gauges() };
  }

  /**
   * The device is full. What is to be written waits; deletions are run, and the pages they free are given back, in the
   * space that the ballast has left. So the cloud's acknowledgements make room here, and so does whoever tidies up.
   */
  private drain(id: number, group: Batch | null, riders: Batch | null): Reply {
    const results = new Float64Array(0);
    let left = riders;
    try {
      this.space.squeeze();
      if (this.space.mark()) {
        if (riders) this.transaction(() => this.units.run(riders));
        left = null;
        this.space.giveBack();
      }
    } catch (error) {
      const failure = describe(error);
      if (FATAL.test(failure.code)) return { kind: 'failed', failure };
      if (!isFullError(error)) left = null;
    }
    if (!group && !left) return this.committed(id, results, new Map(), null);
    return { kind: 'full', id, done: 0, results, group, riders: left, gauges: this.gauges() };
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
          at = this.transaction(() => this.units.runOne(reader, into, at));
        } catch (error) {
          const failure = describe(error);
          if (FATAL.test(failure.code)) return failure;
          reader.seek(start);
          at = this.units.passOver(reader, into, at);
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

  private vacuumWhileIdle(): void {
    this.vacuumTimer = undefined;
    this.orFail(() => {
      if (!this.space.vacuumStep()) return;
      this.checkpoints.whenDue();
      this.vacuumTimer = setTimeout(() => this.vacuumWhileIdle(), 1);
    });
  }

  private gauges(): Float64Array {
    const values: number[] = [];
    for (const owner of this.owners) values.push(...Object.values(owner.gauges?.() ?? {}));
    values.push(this.space.pages, this.space.free);
    return Float64Array.from(values);
  }
}

/** For the next start: what it must not believe of the files at `path`. */
function leaveWord(path: string, failure: Failure): void {
  markIfIoError(path, failure);
  if (isDamage(failure)) suspect(path, failure.message);
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

/** Damage that is met on the way is looked for in every page by the second attempt, because of the word left by the first. */
function start(options: WorkerOptions, modules: readonly Tables[]): StoreThread {
  try {
    return new StoreThread(options, modules);
  } catch (error) {
    if (!isDamage(error)) throw error;
    return new StoreThread(options, modules);
  }
}

const options = workerData as WorkerOptions;
try {
  const modules: Tables[] = [];
  for (const url of options.tables) modules.push(((await import(url)) as { tables: Tables }).tables);
  const thread = start(options, modules);
  port.on('message', (request: Request) => thread.handle(request));
  send(thread.opened());
} catch (error) {
  send({ kind: 'broken', failure: describe(error), hint: error instanceof HoldfastError ? error.hint : undefined });
}
