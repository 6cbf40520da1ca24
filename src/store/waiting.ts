import type { HoldfastError } from '../lib/errors.js';
import { ArenaWriter } from './arena.js';
import type { Batch } from './protocol.js';
import type { Op, Unit } from './tables.js';

/** `results[at + i]` is what operation i of the unit returned, NaN where it returned nothing or was skipped. */
export type UnitDone = (error: HoldfastError | null, results: Float64Array, at: number) => void;

const GROUP_UNITS_MAX = 8_192;
/** Buffers kept to be written again: one fills while one is away; a rare large one is let go. */
const SPENT_MAX = 3;
const SPENT_BYTES_MAX = 2 * 1024 * 1024;

interface Gathered {
  readonly writer: ArenaWriter;
  readonly done: UnitDone[];
  readonly operations: number[];
}

/** A group as it goes to the thread; no batch when there were only riders. */
export interface Group {
  readonly batch: Batch | null;
  readonly done: readonly UnitDone[];
  readonly operations: readonly number[];
}

/** Units that wait for the commit they share, in groups of a bounded size, and riders that wait for any commit. */
export class Waiting {
  private readonly groupBytesMax: number;
  private groups: Gathered[] = [];
  private riders = new ArenaWriter();
  private ridersBack: Batch | null = null;
  private readonly spent: ArrayBuffer[] = [];

  constructor(groupBytesMax: number) {
    this.groupBytesMax = groupBytesMax;
  }

  get isEmpty(): boolean {
    return this.groups.length === 0 && this.riders.units === 0;
  }

  /** Returns the bytes that the unit takes until it is committed. */
  add(unit: Unit, done: UnitDone): number {
    let last = this.groups.at(-1);
    if (!last || last.writer.bytes >= this.groupBytesMax || last.writer.units >= GROUP_UNITS_MAX) {
      last = { writer: new ArenaWriter(this.spent.pop()), done: [], operations: [] };
      this.groups.push(last);
    }
    const before = last.writer.bytes;
    last.writer.write(unit);
    last.done.push(done);
    last.operations.push(unit.length);
    return last.writer.bytes - before;
  }

  addRider(op: Op): void {
    this.riders.write([op]);
  }

  /** The oldest group. */
  takeGroup(): Group | undefined {
    const group = this.groups.shift();
    return group && { batch: take(group.writer), done: group.done, operations: group.operations };
  }

  /** All riders; those that came back go first. */
  takeRiders(): Batch | null {
    const back = this.ridersBack;
    this.ridersBack = null;
    if (back || this.riders.units === 0) return back;
    const batch = take(this.riders);
    this.riders = new ArenaWriter();
    return batch;
  }

  /** Riders that found no room go with the next commit. */
  giveBackRiders(riders: Batch | null): void {
    this.ridersBack = riders;
  }

  /** A buffer that has been committed may be written again. */
  reuse(buffer: ArrayBuffer): void {
    if (buffer.byteLength <= SPENT_BYTES_MAX && this.spent.length < SPENT_MAX) this.spent.push(buffer);
  }

  /** Callbacks of everything that will not be committed any more. */
  giveUp(): UnitDone[] {
    const done = this.groups.flatMap((group) => group.done);
    this.groups = [];
    return done;
  }
}

function take(writer: ArenaWriter): Batch {
  const { units, operations, bytes } = writer;
  return { start: 0, end: bytes, units, operations, buffer: writer.take() };
}
