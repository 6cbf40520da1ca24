/**
 * The one way into the spool. Both doors, the broker's gate and the readers, hand their messages over here together with
 * the rows that must become durable with them; a message in a bridged topic gets its spool row in the same transaction.
 *
 * When the spool is at its ceiling a bridged message waits, unacknowledged, in the order of its arrival; messages that
 * stay in the plant pass, and so do those for which older ones may be dropped. The publisher still owns what was not
 * acknowledged; when it goes away meanwhile it will send its message again, so the one that waits is let go. Refusing is an
 * option for operators who know that their publishers keep what is refused; most do not.
 */
import { HoldfastError } from '../lib/errors.js';
import type { Message } from '../model/message.js';
import type { Identity, SpoolInput } from '../model/row.js';
import type { Op, Spool, UnitDone } from '../spool/spool.js';
import { FilterSet } from '../wire/filter-set.js';
import type { ReadingMap } from './reading-map.js';
import type { Classes } from './when-full.js';

/** How often waiting messages look for room again when nothing is committed. */
const ROOM_LOOK_MS = 50;
/** Publishers are paused long before this; it bounds what clients that come and go can pile up. */
const HELD_BYTES_MAX = 64 * 1024 * 1024;
/** What one waiting message costs besides its bytes. */
const HELD_OVERHEAD_BYTES = 512;

export interface IntakeOptions {
  readonly spool: Spool;
  /** MQTT filters of what is bridged; everything else stays in the plant. */
  readonly topics: readonly string[];
  readonly readings: ReadingMap;
  readonly classes: Classes;
  /** Whether the spool takes a new row now, one that may be dropped later or one that may not. */
  readonly hasRoom: (droppable: boolean) => boolean;
  /** Publishers that can be told so are refused while there is no room, with `spool.refused`, instead of made to wait. */
  readonly refuses?: boolean;
}

export interface IntakeStats {
  /** Messages in bridged topics, and those of them that matched a reading template and were no reading. */
  readonly bridged: number;
  readonly unreadable: number;
  readonly lastProblem: string | null;
  readonly heldMessages: number;
}

/** A message, whether its publisher has gone and nobody waits for its acknowledgement, and whether it can be told "no". */
export interface Offered extends Message {
  readonly isAbandoned?: (() => boolean) | undefined;
  readonly refusable?: boolean;
}

interface Held {
  readonly isAbandoned: (() => boolean) | undefined;
  readonly operations: readonly Op[];
  readonly input: SpoolInput;
  readonly done: UnitDone;
}

const NO_RESULTS = new Float64Array(0);

export class Intake {
  private readonly options: IntakeOptions;
  private readonly filters: FilterSet;
  /** Two queues, so that what must be kept does not stand in the way of what may be dropped. */
  private readonly held = { kept: [] as Held[], droppable: [] as Held[] };
  private heldBytes = 0;
  private timer: NodeJS.Timeout | undefined;
  private watching = false;
  private bridged = 0;
  private unreadable = 0;
  private lastProblem: string | null = null;
  private closed = false;

  constructor(options: IntakeOptions) {
    this.options = options;
    this.filters = new FilterSet(options.topics);
  }

  /**
   * Makes a message durable. `done` without an error means committed: now it may be acknowledged. `identity` is what a
   * reader knows of its own message; for a publisher's message it is null and found by the configured templates.
   */
  admit(message: Offered, identity: Identity | null, operations: readonly Op[], done: UnitDone): void {
    const { spool } = this.options;
    if (!this.filters.matches(message.topic)) {
      spool.submit(operations, null, done);
      return;
    }
    this.bridged++;
    const droppable = identity?.type !== 'g' && this.options.classes.isDroppable(message.topic);
    const { topic, payload, qos, retain, props } = message;
    const { type, asset, metric, deviceTs } = identity ?? this.identify(message);
    const input: SpoolInput = { topic, payload, qos, retain, props, type, asset, metric, deviceTs, droppable };
    const queue = droppable ? this.held.droppable : this.held.kept;
    if (queue.length === 0 && this.options.hasRoom(droppable)) spool.submit(operations, input, done);
    else if (this.options.refuses && message.refusable)
      done(new HoldfastError('spool.refused', 'the spool is full'), NO_RESULTS, 0);
    else this.hold(queue, { operations, input, done, isAbandoned: message.isAbandoned });
  }

  stats(): IntakeStats {
    const { bridged, unreadable, lastProblem } = this;
    return { bridged, unreadable, lastProblem, heldMessages: this.held.kept.length + this.held.droppable.length };
  }

  /** What waits is given back unacknowledged. */
  close(): void {
    this.closed = true;
    clearInterval(this.timer);
    this.timer = undefined;
    const waiting = [...this.held.kept.splice(0), ...this.held.droppable.splice(0)];
    for (const { done } of waiting) done(new HoldfastError('spool.closed', 'the gateway is stopping'), NO_RESULTS, 0);
  }

  private identify(message: Message): Identity {
    const found = this.options.readings.identify(message);
    if (!('problem' in found)) return found;
    this.unreadable++;
    this.lastProblem = `${message.topic}: ${found.problem}`;
    return { type: 'p', asset: null, metric: null, deviceTs: null };
  }

  private hold(queue: Held[], held: Held): void {
    const bytes = held.input.payload.length + HELD_OVERHEAD_BYTES;
    if (this.closed || this.heldBytes + bytes > HELD_BYTES_MAX) {
      held.done(new HoldfastError('spool.full', 'the spool is full, and so is the room to wait in'), NO_RESULTS, 0);
      return;
    }
    this.heldBytes += bytes;
    queue.push(held);
    this.timer ??= setInterval(() => this.release(), ROOM_LOOK_MS);
    this.watch();
  }

  /** Room comes with a commit; the timer is for what frees space without one. */
  private watch(): void {
    if (this.watching) return;
    this.watching = true;
    void this.options.spool.changed().then(() => {
      this.watching = false;
      if (this.timer === undefined) return;
      this.release();
      if (this.timer !== undefined) this.watch();
    });
  }

  private release(): void {
    this.releaseFrom(this.held.kept, false);
    this.releaseFrom(this.held.droppable, true);
    if (this.held.kept.length + this.held.droppable.length > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private releaseFrom(queue: Held[], droppable: boolean): void {
    this.letGo(queue);
    let at = 0;
    for (; at < queue.length && this.options.hasRoom(droppable); at++) {
      const { operations, input, done } = queue[at] as Held;
      this.heldBytes -= input.payload.length + HELD_OVERHEAD_BYTES;
      this.options.spool.submit(operations, input, done);
    }
    queue.splice(0, at);
  }

  /** Its publisher sends it again on its next connection; both would go to the cloud. */
  private letGo(queue: Held[]): void {
    const gone = queue.filter(({ isAbandoned }) => isAbandoned?.() === true);
    if (gone.length === 0) return;
    const stay = queue.filter(({ isAbandoned }) => isAbandoned?.() !== true);
    queue.splice(0, queue.length, ...stay);
    for (const { input, done } of gone) {
      this.heldBytes -= input.payload.length + HELD_OVERHEAD_BYTES;
      done(new HoldfastError('spool.full', 'the publisher went away while the spool was full'), NO_RESULTS, 0);
    }
  }
}
