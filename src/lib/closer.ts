import { messageOf } from './errors.js';

type Release = () => unknown;

/**
 * A stack of things to close. `close()` runs every release in reverse order of `push`, waits for each, goes on after
 * one that fails, and throws all failures together at the end. It is idempotent: later calls get the same promise.
 */
export class Closer {
  private readonly stack: { name: string; release: Release }[] = [];
  private closing: Promise<void> | undefined;

  push(name: string, release: Release): void {
    this.stack.push({ name, release });
  }

  close(): Promise<void> {
    this.closing ??= this.run();
    return this.closing;
  }

  private async run(): Promise<void> {
    const failures: Error[] = [];
    for (let entry = this.stack.pop(); entry; entry = this.stack.pop()) {
      try {
        await entry.release();
      } catch (cause) {
        failures.push(new Error(`closing ${entry.name}: ${messageOf(cause)}`, { cause }));
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, failures.map((f) => f.message).join('; '));
  }
}
