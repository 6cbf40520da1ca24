import type { SampleBatch } from '../driver.js';

/** More than any group gives in a minute; a few megabytes. */
const SAMPLES_MAX = 20_000;

/**
 * Hands batches over one after the other. A server that pushes does not wait for the spool, so what waits is bounded: beyond
 * that nothing is taken, and the caller puts it on record.
 */
export class Outbox {
  private readonly emit: (batch: SampleBatch) => Promise<void>;
  private chain: Promise<void> = Promise.resolve();
  private waiting = 0;

  constructor(emit: (batch: SampleBatch) => Promise<void>) {
    this.emit = emit;
  }

  hasRoom(samples: number): boolean {
    return this.waiting === 0 || this.waiting + samples <= SAMPLES_MAX;
  }

  /** Ask `hasRoom` first. */
  put(batch: SampleBatch): void {
    this.waiting += batch.samples.length;
    this.chain = this.chain
      .then(() => this.emit(batch))
      // It rejects only when the gateway is being ended and gives up what is in its hands.
      .catch(() => {})
      .finally(() => {
        this.waiting -= batch.samples.length;
      });
  }

  /** Resolves when everything that was put is durable, or given up. */
  idle(): Promise<void> {
    return this.chain;
  }
}
