import type { Millis } from '../../model/ids.js';

/**
 * Cycles that were due and not run although the device was there: the bus is slower than its load, or the spool could take
 * no more. Each would be a gap of its own, and as many records as readings; so they are gathered and told once a minute.
 */
export class SkippedPolls {
  private from: Millis | undefined;
  private cycles = 0;

  /** `lastAt`: the last answer before them. */
  add(cycles: number, lastAt: Millis | undefined, now: Millis): void {
    if (cycles === 0) return;
    this.from ??= lastAt ?? now;
    this.cycles += cycles;
  }

  /** What was gathered, when it is time to tell it or `atOnce`. */
  take(now: Millis, atOnce = false): { readonly from: Millis; readonly cycles: number } | undefined {
    const { from, cycles } = this;
    if (from === undefined || (!atOnce && now - from < TELL_EVERY_MS)) return undefined;
    this.from = undefined;
    this.cycles = 0;
    return { from, cycles };
  }
}

const TELL_EVERY_MS = 60_000;
