import type { Millis } from '../../model/ids.js';
import type { SampleBatch } from '../driver.js';

/** What belongs to one cycle of a group only. */
export class Cycle {
  readonly handovers: Promise<void>[] = [];
  lastTs: Millis | undefined;
  private readonly previousTs: Millis | undefined;
  private readonly kept: SampleBatch[] = [];

  constructor(previousTs: Millis | undefined) {
    this.previousTs = previousTs;
  }

  /**
   * Asset, metric and time identify a reading, so two cycles within one millisecond (one made up for, the next one due)
   * must not have the same time.
   */
  stamp(now: Millis): Millis {
    this.lastTs = now === this.previousTs ? ((now + 1) as Millis) : now;
    return this.lastTs;
  }

  /** Holds back a batch that goes out with the others of this cycle. */
  keep(batch: SampleBatch): void {
    this.kept.push(batch);
  }

  /** All that was kept as one batch, at the time of the last answer in it. */
  together(device: string, message: string | undefined): SampleBatch | undefined {
    const last = this.kept.at(-1);
    if (!last || message === undefined) return undefined;
    const gap = this.kept.find((batch) => batch.gap)?.gap;
    const tagGaps = this.kept.flatMap((batch) => batch.tagGaps ?? []);
    const samples = this.kept.flatMap((batch) => batch.samples);
    return {
      device,
      message,
      ts: last.ts,
      samples,
      ...(gap ? { gap } : {}),
      ...(tagGaps.length > 0 ? { tagGaps } : {}),
    };
  }
}
