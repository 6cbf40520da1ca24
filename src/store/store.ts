/**
 * The one SQLite file of a gateway, seen from the main thread.
 *
 * Guarantees: a unit's callback without an error means that the COMMIT holding it has returned with `synchronous=FULL`;
 * callbacks come in the order of `submit`; a unit is durable as a whole or not at all. Units that arrive while a commit is
 * in flight are gathered and share the next one, so the price of an fsync is paid once per group, not per message.
 *
 * When the device is full nothing is refused and nothing is acknowledged: the group is kept and tried again, after the
 * deletions that may make room. After an I/O error nothing is committed any more (`failed`): the page cache can show what
 * the device does not have, so only a restart on fresh files may go on.
 */
import type { Worker } from 'node:worker_threads';
import { assert, assertNever } from '../lib/assert.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import { type Log, silentLog } from '../lib/log.js';
import { Asked } from './asked.js';
import { type OpenThread, openThread, type StoreOptions } from './open-thread.js';
import { type Batch, buffersOf, type Failure, type Reply, type Request } from './protocol.js';
import type { Damage, Op, Unit } from './tables.js';
import { type Group, type UnitDone, Waiting } from './waiting.js';

/** A group larger than this would hold the thread, and a waiting publisher, for longer than a checkpoint does. */
const GROUP_BYTES_MAX = 4 * 1024 * 1024;
/** Riders that nobody gives a lift to within this time get a transaction of their own. */
const RIDER_WAIT_MS = 100;
const FULL_RETRY_MS = 250;

export type { StoreOptions, UnitDone };

export type StoreState = 'open' | 'full' | 'failed' | 'closed';

const NOBODY: Group = { batch: null, done: [], operations: [] };
const NO_RESULTS = new Float64Array(0);
const NO_FAILURES: ReadonlyMap<number, Failure> = new Map();

export class Store {
  private readonly worker: Worker;
  private readonly log: Log;
  private readonly operationNumbers = new Map<string, number>();
  private readonly gaugeNumbers = new Map<string, number>();
  private gaugeValues: Float64Array;
  private readonly waiting: Waiting;
  private sent: Group | undefined;
  private scheduled = false;
  private riderTimer: NodeJS.Timeout | undefined;
  private fullTimer: NodeJS.Timeout | undefined;
  private nextId = 1;
  private readonly asked = new Asked();
  private mode: StoreState = 'open';
  private failure: HoldfastError | undefined;
  private closing: Promise<void> | undefined;
  private onClosed: (() => void) | undefined;
  private onCommit: (() => void) | undefined;
  private nextCommit: Promise<void> | undefined;
  private onIdle: (() => void) | undefined;
  private fail: (error: HoldfastError) => void = () => {};
  /** Resolves with the error after which nothing is committed any more. */
  readonly failed: Promise<HoldfastError>;
  readonly sqlite: string;
  /** The build takes it that a torn write harms no bytes outside its range (https://www.sqlite.org/psow.html). */
  readonly trustsPowersafeOverwrite: boolean;
  /** Set when the file was damaged and a new one has been made from what could be read of it. */
  readonly damage: Damage | undefined;
  private waitingBytesNow = 0;

  private constructor({ worker, opened, gauges }: OpenThread, options: StoreOptions) {
    this.worker = worker;
    this.log = options.log ?? silentLog;
    this.waiting = new Waiting(options.groupBytesMax ?? GROUP_BYTES_MAX);
    this.sqlite = opened.sqlite;
    this.trustsPowersafeOverwrite = opened.trustsPowersafeOverwrite;
    this.damage = opened.damage;
    this.gaugeValues = gauges;
    for (const [i, name] of opened.operations.entries()) this.operationNumbers.set(name, i);
    for (const [i, name] of opened.gauges.entries()) this.gaugeNumbers.set(name, i);
    this.failed = new Promise((resolve) => {
      this.fail = resolve;
    });
    worker.on('message', (reply: Reply) => this.receive(reply));
    worker.on('error', (error) => this.breakDown({ code: 'ERROR', message: messageOf(error) }));
    worker.on('exit', () => {
      if (this.mode !== 'closed') this.breakDown({ code: 'ERROR', message: 'the store thread ended' });
    });
  }

  /**
   * Opens or creates the file; a damaged one is replaced (see `recovery.ts`). Throws `spool.locked`, `spool.version`,
   * `spool.not-durable`, `spool.full` or `spool.io`.
   */
  static async open(options: StoreOptions): Promise<Store> {
    return new Store(await openThread(options), options);
  }

  get state(): StoreState {
    return this.mode;
  }

  /** Bytes submitted and not yet durable: what a bound on memory is to be put on. */
  get waitingBytes(): number {
    return this.waitingBytesNow;
  }

  /** The number under which units call an operation, `owner.name`. */
  operation(name: string): number {
    const number = this.operationNumbers.get(name);
    assert(number !== undefined, 'an operation has been registered', { name });
    return number;
  }

  /** The value that came with the newest answer of the store thread; costs nothing. */
  gauge(name: string): number {
    const number = this.gaugeNumbers.get(name);
    if (number === undefined) assert(false, 'a gauge has been registered', { name });
    return this.gaugeValues[number as number] as number;
  }

  /** Makes a unit durable; `done` is called once, in the order of submission, and must not throw. */
  submit(unit: Unit, done: UnitDone): void {
    const ended = this.ended ?? (this.closing && new HoldfastError('spool.closed', 'the store is closing'));
    if (ended) {
      queueMicrotask(() => this.call(done, ended, NO_RESULTS, 0));
      return;
    }
    this.waitingBytesNow += this.waiting.add(unit, done);
    this.schedule();
  }

  /** Why nothing is committed any more; undefined while something may be. */
  get ended(): HoldfastError | undefined {
    if (this.mode !== 'failed' && this.mode !== 'closed') return undefined;
    return this.failure ?? new HoldfastError('spool.closed', 'the store is closed');
  }

  /** Resolves after the next transaction of any kind, or when there will be none any more; after that, never. */
  changed(): Promise<void> {
    this.nextCommit ??= new Promise((resolve) => {
      this.onCommit = resolve;
    });
    return this.nextCommit;
  }

  /** `submit` as a promise of what the unit's operations returned. */
  commit(unit: Unit): Promise<number[]> {
    return new Promise((resolve, reject) => {
      this.submit(unit, (error, results, at) => {
        if (error) reject(error);
        else resolve(Array.from(results.subarray(at, at + unit.length)));
      });
    });
  }

  /**
   * Runs an operation in the next transaction that happens anyway, at the latest after `RIDER_WAIT_MS`. For changes that
   * may be lost in a crash without harm, such as the deletion of rows that the cloud has acknowledged.
   */
  ride(op: Op): void {
    if (this.ended) return;
    this.waiting.addRider(op);
    this.riderTimer ??= setTimeout(() => {
      this.riderTimer = undefined;
      this.schedule();
    }, RIDER_WAIT_MS);
  }

  /** What rides goes now. */
  hasten(): void {
    this.schedule();
  }

  /** Reads what has been committed by every group sent before. */
  query<T>(name: string, ...args: unknown[]): Promise<T> {
    const { ended } = this;
    if (ended) return Promise.reject(ended);
    const id = this.nextId++;
    return this.asked.ask<T>(id, () => this.post({ kind: 'query', id, name, args }));
  }

  /** Commits what has been submitted, then closes the file. When it cannot (full, failed), what waits gets an error. */
  close(): Promise<void> {
    this.closing ??= this.shut();
    return this.closing;
  }

  private async shut(): Promise<void> {
    clearTimeout(this.riderTimer);
    if (this.mode === 'open' && (this.sent || !this.waiting.isEmpty)) {
      await new Promise<void>((resolve) => {
        this.onIdle = resolve;
        this.flush();
      });
    }
    clearTimeout(this.fullTimer);
    this.rejectWaiting(new HoldfastError('spool.closed', 'the store was closed before this could be committed'));
    if (this.mode !== 'failed') {
      await new Promise<void>((resolve) => {
        this.onClosed = resolve;
        this.post({ kind: 'close', id: this.nextId++ });
      });
    }
    this.mode = 'closed';
    this.announce();
    await this.worker.terminate();
  }

  private schedule(): void {
    if (this.scheduled || this.sent) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      this.flush();
    });
  }

  private flush(): void {
    if (this.sent || this.mode === 'failed' || this.mode === 'closed' || this.fullTimer) return;
    const group = this.waiting.takeGroup();
    const riders = this.takeRiders();
    if (!group && !riders) this.onIdle?.();
    else this.transmit(group ?? NOBODY, riders);
  }

  private takeRiders(): Batch | null {
    clearTimeout(this.riderTimer);
    this.riderTimer = undefined;
    return this.waiting.takeRiders();
  }

  private transmit(sent: Group, riders: Batch | null): void {
    this.sent = sent;
    this.post({ kind: 'group', id: this.nextId++, group: sent.batch, riders }, buffersOf(sent.batch, riders));
  }

  private post(request: Request, transfer: readonly ArrayBuffer[] = []): void {
    this.worker.postMessage(request, transfer);
  }

  private receive(reply: Reply): void {
    switch (reply.kind) {
      case 'committed':
        this.gaugeValues = reply.gauges;
        this.mode = 'open';
        if (reply.spent) this.waiting.reuse(reply.spent);
        this.committed(reply.results, reply.failures ?? NO_FAILURES);
        return;
      case 'full':
        this.gaugeValues = reply.gauges;
        this.becomeFull(reply);
        return;
      case 'answer':
        this.gaugeValues = reply.gauges;
        this.asked.answer(reply.id, reply.value);
        return;
      case 'refused':
        this.asked.refuse(reply.id, unitError(reply.failure));
        return;
      case 'failed':
        this.breakDown(reply.failure);
        return;
      case 'closed':
        this.onClosed?.();
        return;
      case 'opened':
      case 'broken':
        assert(false, 'the store thread opens once');
        return;
      default:
        assertNever(reply, 'store reply');
    }
  }

  private committed(results: Float64Array, failures: ReadonlyMap<number, Failure>): void {
    const sent = this.sent;
    assert(sent, 'a commit answers a group');
    this.sent = undefined;
    if (sent.batch) this.waitingBytesNow -= sent.batch.end - sent.batch.start;
    // The next group is on its way before this one's callbacks run: the thread commits while we acknowledge.
    this.flush();
    this.answer(sent, sent.done.length, results, failures);
    this.announce();
  }

  private announce(): void {
    this.onCommit?.();
    this.onCommit = undefined;
    this.nextCommit = undefined;
  }

  /** Calls back the first `units` units of a group. */
  private answer(sent: Group, units: number, results: Float64Array, failures: ReadonlyMap<number, Failure>): void {
    for (let unit = 0, at = 0; unit < units; unit++) {
      const failure = failures.size > 0 ? failures.get(unit) : undefined;
      this.call(sent.done[unit] as UnitDone, failure ? unitError(failure) : null, results, at);
      at += sent.operations[unit] as number;
    }
  }

  private becomeFull({ done, results, group, riders }: Extract<Reply, { kind: 'full' }>): void {
    const sent = this.sent;
    assert(sent, 'a full device answers a group');
    if (this.mode === 'open') this.log.error({}, 'The device is full; acknowledgements wait until there is room');
    this.mode = 'full';
    this.waiting.giveBackRiders(riders);
    if (sent.batch && group) this.waitingBytesNow -= group.start - sent.batch.start;
    const rest: Group = { batch: group, done: sent.done.slice(done), operations: sent.operations.slice(done) };
    this.sent = rest;
    this.answer(sent, done, results, NO_FAILURES);
    this.announce();
    if (this.onIdle) {
      this.onIdle();
    } else {
      this.fullTimer = setTimeout(() => {
        this.fullTimer = undefined;
        this.transmit(rest, this.takeRiders());
      }, FULL_RETRY_MS);
    }
  }

  private breakDown(failure: Failure): void {
    if (this.mode === 'failed' || this.mode === 'closed') return;
    this.mode = 'failed';
    this.failure = new HoldfastError('spool.io', `The spool file failed: ${failure.message}`, {
      values: { code: failure.code },
      hint: 'check the device and its file system; what was acknowledged is in the file',
    });
    this.log.error(
      { code: failure.code, cause: failure.message },
      'The spool file failed; nothing is acknowledged any more',
    );
    this.rejectWaiting(this.failure);
    this.announce();
    this.fail(this.failure);
    this.onIdle?.();
    this.onClosed?.();
  }

  private rejectWaiting(error: HoldfastError): void {
    const waiting = [...(this.sent?.done ?? []), ...this.waiting.giveUp()];
    this.sent = undefined;
    this.waitingBytesNow = 0;
    for (const done of waiting) this.call(done, error, NO_RESULTS, 0);
    this.asked.refuseAll(error);
  }

  /** A callback that throws must not keep the others of its group from being called. */
  private call(done: UnitDone, error: HoldfastError | null, results: Float64Array, at: number): void {
    try {
      done(error, results, at);
    } catch (bug) {
      this.log.error({ cause: messageOf(bug) }, 'A commit callback threw');
    }
  }
}

function unitError({ code, message }: Failure): HoldfastError {
  return new HoldfastError('spool.constraint', message, { values: { code } });
}
