/**
 * Runs the groups, each in one transaction, and answers what became of it. A bad unit must not fail its neighbours, and a
 * device that is full must not refuse the deletions that make room: both are told apart here, and after an error that
 * leaves the file in doubt the answer is `failed` and nothing is run any more.
 */
import type { Database } from 'better-sqlite3';
import { ArenaReader } from './arena.js';
import { describe, isFatal } from './failure.js';
import { isFullError } from './full.js';
import type { Batch, Failure, Reply } from './protocol.js';
import type { Space } from './space.js';
import type { OpenTables } from './tables.js';
import type { Units } from './units.js';

export interface GroupsOptions {
  readonly db: Database;
  readonly space: Space;
  readonly units: Units;
  readonly owners: readonly OpenTables[];
  readonly gauges: () => Float64Array;
}

export class Groups {
  private readonly db: Database;
  private readonly space: Space;
  private readonly units: Units;
  private readonly owners: readonly OpenTables[];
  private readonly gauges: () => Float64Array;
  private readonly begin;
  private readonly commit;
  private readonly rollback;

  constructor({ db, space, units, owners, gauges }: GroupsOptions) {
    this.db = db;
    this.space = space;
    this.units = units;
    this.owners = owners;
    this.gauges = gauges;
    this.begin = db.prepare('BEGIN IMMEDIATE');
    this.commit = db.prepare('COMMIT');
    this.rollback = db.prepare('ROLLBACK');
  }

  /** The answer to a request of a group; nothing is thrown. */
  run(id: number, group: Batch | null, riders: Batch | null): Reply {
    try {
      if (this.space.isSqueezed && !this.space.relax()) return this.drain(id, group, riders);
    } catch (error) {
      const failure = describe(error);
      return isFatal(failure) ? { kind: 'failed', failure } : this.drain(id, group, riders);
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
      if (isFatal(failure)) return { kind: 'failed', failure };
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
      if (riders) ridersLeft = this.ride(riders);
      // Not even they have room, so it is the device after all.
      if (ridersLeft) return this.drain(id, group, ridersLeft);
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
      if (isFatal(failure)) return { kind: 'failed', failure };
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
        if (riders) left = this.ride(riders);
        this.space.giveBack();
      }
    } catch (error) {
      const failure = describe(error);
      if (isFatal(failure)) return { kind: 'failed', failure };
    }
    if (!group && !left) return this.committed(id, results, new Map(), null);
    return { kind: 'full', id, done: 0, results, group, riders: left, gauges: this.gauges() };
  }

  /**
   * Riders on a full device. Those that find no room must not hold up the deletions among them, which would make some; they
   * are returned. Throws fatal errors.
   */
  private ride(riders: Batch): Batch | null {
    try {
      this.transaction(() => this.units.run(riders));
      return null;
    } catch (error) {
      if (isFatal(describe(error))) throw error;
    }
    const reader = new ArenaReader(riders.buffer, riders.start);
    const left: Uint8Array[] = [];
    let operations = 0;
    for (let unit = 0; unit < riders.units; unit++) {
      const start = reader.offset;
      try {
        this.transaction(() => this.units.runOne(reader, undefined, 0));
      } catch (error) {
        if (isFatal(describe(error))) throw error;
        reader.seek(start);
        const passed = this.units.passOver(reader, undefined, 0);
        if (!isFullError(error)) continue;
        left.push(new Uint8Array(riders.buffer, start, reader.offset - start));
        operations += passed;
      }
    }
    if (left.length === 0) return null;
    const bytes = Buffer.concat(left);
    const buffer = new Uint8Array(bytes).buffer;
    return { start: 0, end: bytes.length, units: left.length, operations, buffer };
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
          if (isFatal(failure)) return failure;
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
      for (const owner of this.owners) owner.afterCommit?.();
      return value;
    } catch (error) {
      // SQLite rolls back by itself after some errors (no space, I/O).
      if (this.db.inTransaction) this.rollback.run();
      if (!isFatal(describe(error))) for (const owner of this.owners) owner.afterRollback?.();
      throw error;
    }
  }
}
