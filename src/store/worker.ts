/**
 * The store's thread: owns the connection, runs one group per transaction, answers queries between groups. It holds no
 * queue of its own: the message port is the queue, so commits and queries happen in the order in which they were sent.
 */
import { resolve } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import type { Database } from 'better-sqlite3';
import { assert, assertNever } from '../lib/assert.js';
import { HoldfastError } from '../lib/errors.js';
import { markIfIoError } from '../lib/sqlite-io-error.js';
import { Checkpoints } from './checkpoints.js';
import { markClosed, migrate } from './database.js';
import { describe, isFatal } from './failure.js';
import { unlessFull } from './full.js';
import { Groups } from './groups.js';
import { buffersOf, type Failure, type Reply, type Request, type WorkerOptions } from './protocol.js';
import { isDamage, openSound, suspect } from './recovery.js';
import { Space } from './space.js';
import type { Damage, OpenTables, Query, Tables } from './tables.js';
import { Units } from './units.js';

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
  private readonly groups: Groups;
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
    const { space, units, owners } = this;
    this.groups = new Groups({ db, space, units, owners, gauges: () => this.gauges() });
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
    const options = this.db.pragma('compile_options') as { compile_options: string }[];
    const trustsPowersafeOverwrite = !options.some((it) => it.compile_options === 'POWERSAFE_OVERWRITE=0');
    const opened = { operations, gauges, sqlite, trustsPowersafeOverwrite, healed, damage };
    return { kind: 'opened', opened, gauges: this.gauges() };
  }

  handle(request: Request): void {
    if (this.hasFailed) return;
    switch (request.kind) {
      case 'group':
        this.reply(this.groups.run(request.id, request.group, request.riders));
        // Whoever waits for the commit need not wait for this.
        this.orFail(() => this.checkpointWhenDue());
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
      if (isFatal(failure)) this.reply({ kind: 'failed', failure });
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
      return isFatal(failure) ? { kind: 'failed', failure } : { kind: 'refused', id, failure };
    }
  }

  private checkpointWhenDue(): void {
    if (!this.checkpoints.whenDue()) this.space.squeeze();
  }

  private vacuumWhileIdle(): void {
    this.vacuumTimer = undefined;
    this.orFail(() => {
      if (!this.space.vacuumStep()) return;
      this.checkpointWhenDue();
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
