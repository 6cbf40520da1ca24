/**
 * Lets one loop sleep until something has happened. A `notify` between two waits is not lost: the next wait returns at
 * once. For loops of the form "do everything that can be done, then wait".
 */
export class Wake {
  private pending = false;
  private wakeUp: (() => void) | undefined;

  notify(): void {
    this.pending = true;
    this.wakeUp?.();
  }

  /** Resolves at the next `notify`, or after `ms`. */
  async wait(ms: number): Promise<void> {
    if (!this.pending) {
      await new Promise<void>((resolve) => {
        const timer = Number.isFinite(ms) ? setTimeout(resolve, ms) : undefined;
        this.wakeUp = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.wakeUp = undefined;
    }
    this.pending = false;
  }
}
