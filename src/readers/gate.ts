/**
 * A condition that loops wait for: a link that is open, a device that is up. Every wait has an end of its own and can be
 * interrupted, so that no loop outlives the reader.
 */
export class Gate {
  private opened = false;
  private readonly waiting = new Set<() => void>();

  get isOpen(): boolean {
    return this.opened;
  }

  open(): void {
    this.opened = true;
    for (const wake of this.waiting) wake();
  }

  shut(): void {
    this.opened = false;
  }

  /** True once the gate is open; false when `ms` is over or `signal` aborts before. Without `ms` it waits for ever. */
  wait(signal: AbortSignal, ms?: number): Promise<boolean> {
    if (this.opened || signal.aborted) return Promise.resolve(this.opened && !signal.aborted);
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        this.waiting.delete(done);
        resolve(this.opened && !signal.aborted);
      };
      const timer = ms === undefined ? undefined : setTimeout(done, Math.min(ms, TIMER_MS_MAX));
      signal.addEventListener('abort', done, { once: true });
      this.waiting.add(done);
    });
  }
}

/** setTimeout fires at once above this; a wait that ends early only makes its loop look again. */
const TIMER_MS_MAX = 2 ** 31 - 1;
