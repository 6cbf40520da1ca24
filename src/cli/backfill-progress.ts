import type { BackfillUnit } from '../ingest/rollups.js';

export interface Progress {
  readonly doneHours: number;
  readonly totalHours: number;
  readonly elapsedMs: number;
  /** Until it is done, at the pace so far; null before the first hour is done. */
  readonly etaMs: number | null;
}

/** How far a backfill is. Its pace is that of all units so far: single ones differ by what their hours hold. */
export class BackfillProgress {
  private readonly startedAtMs: number;
  private readonly mono: () => number;
  private totalHours: number;
  private doneHours = 0;

  constructor(totalHours: number, mono: () => number) {
    this.totalHours = totalHours;
    this.mono = mono;
    this.startedAtMs = mono();
  }

  /** Hours that were marked meanwhile, or days that follow their hours, make the total larger and never the rest negative. */
  add({ hours, disagreeing }: BackfillUnit): Progress {
    this.doneHours += hours - disagreeing;
    this.totalHours = Math.max(this.totalHours, this.doneHours);
    const { doneHours, totalHours } = this;
    const elapsedMs = Math.round(this.mono() - this.startedAtMs);
    const etaMs = doneHours === 0 ? null : Math.round((elapsedMs / doneHours) * (totalHours - doneHours));
    return { doneHours, totalHours, elapsedMs, etaMs };
  }
}
