import { assert } from '../lib/assert.js';
import { ArenaReader } from './arena.js';
import type { Batch } from './protocol.js';
import type { Operation } from './tables.js';

/** Reads units out of a batch and runs their operations; the transaction around them is the caller's. */
export class Units {
  /** By their numbers, as units name them. */
  readonly operations: Operation[] = [];

  /** Runs a batch. Returns where in the buffer it ended, and how many operations there were. */
  run(batch: Batch, results?: Float64Array): [end: number, operations: number] {
    const reader = new ArenaReader(batch.buffer, batch.start);
    let at = 0;
    for (let unit = 0; unit < batch.units; unit++) at = this.runOne(reader, results, at);
    return [reader.offset, at];
  }

  /** Runs the unit that `reader` is at, whose first operation is number `at`; returns the number after its last one. */
  runOne(reader: ArenaReader, results: Float64Array | undefined, at: number): number {
    let isSkipped = false;
    for (let left = reader.count(); left > 0; left--, at++) {
      const operation = this.operations[reader.byte()];
      const isGuard = reader.byte() === 1;
      const args: unknown[] = [];
      for (let n = reader.byte(); n > 0; n--) args.push(reader.value());
      if (isSkipped) continue;
      assert(operation, 'a unit names a known operation');
      const result = operation(...(args as never[]));
      if (results) results[at] = result ?? Number.NaN;
      isSkipped = isGuard && result === 0;
    }
    return at;
  }

  /** Passes over the unit that `reader` is at, as if none of it had run. */
  passOver(reader: ArenaReader, results: Float64Array | undefined, at: number): number {
    for (let left = reader.count(); left > 0; left--, at++) {
      reader.byte();
      reader.byte();
      for (let n = reader.byte(); n > 0; n--) reader.value();
      if (results) results[at] = Number.NaN;
    }
    return at;
  }
}
