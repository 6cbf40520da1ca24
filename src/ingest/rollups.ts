import { type Clock, sleep } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import type { Millis } from '../model/ids.js';

/**
 * Hourly rollups that are exact however late readings come in.
 *
 * The transaction that stores readings also leaves a dirty marker for every series and hour that got one. A unit of backfill
 * takes some marked hours, oldest first, computes them anew from the readings, counts again, and deletes a marker only when
 * the rollup has as many readings as there are: all in one transaction, so that a crash at any point leaves the markers of
 * whatever is not done. Markers that come meanwhile stay. What is marked is known from what was written, not from clocks
 * or watermarks, so nothing that came late can be passed over and nothing else is computed again.
 */
export interface Rollups {
  /** What a backfill would do at `now`. An hour is left alone until it is over. */
  plan(now: Millis): Promise<BackfillPlan>;
  /** The same plan per device, the one with the oldest hour first. Counts readings, so it may take seconds. */
  devices(now: Millis): Promise<DeviceGap[]>;
  /** Does one unit; undefined when nothing is left. Rejects like `Historian.ingest`. */
  unit(now: Millis): Promise<BackfillUnit | undefined>;
  /**
   * Removes some of the readings from before the raw horizon, oldest first; undefined when none is left, or no horizon is
   * set. The floor below which no reading is stored any more moves in the same transaction, and never past an hour that has
   * a marker: an hour's rollup is made before its readings go, and is not made again afterwards.
   */
  expire(now: Millis): Promise<Expired | undefined>;
}

export interface Expired {
  readonly readings: number;
  /** Readings before this are put into quarantine from now on. */
  readonly floor: Millis;
}

/** The floor moves by at most this much at a time, which bounds the transaction. */
export const EXPIRE_MS_MAX = 6 * 3_600_000;

/** All counts of hours are per series. */
export interface BackfillPlan {
  readonly hours: number;
  readonly series: number;
  readonly units: number;
  /** Starts of the oldest and the newest of the hours. */
  readonly from: Millis | null;
  readonly to: Millis | null;
  /** Marked hours that are not over yet. */
  readonly open: number;
}

/** What was written late of one device. `from` and `to` are aligned outward to hours; `to` is not in it. */
export interface DeviceGap {
  readonly device: string;
  readonly from: Millis;
  readonly to: Millis;
  /** Hourly buckets that are computed anew, all metrics of the device together. */
  readonly buckets: number;
  /** The same per series. */
  readonly hours: number;
  /** Readings that are read for it. */
  readonly rows: number;
}

export interface BackfillUnit {
  readonly hours: number;
  readonly readings: number;
  readonly from: Millis;
  readonly to: Millis;
  /** Hours whose count did not agree; they keep their markers. */
  readonly disagreeing: number;
}

export const HOUR_MS = 3_600_000;

/** The start of the hour that `ts` is in, UTC. */
export function hourOf(ts: number): Millis {
  return (Math.floor(ts / HOUR_MS) * HOUR_MS) as Millis;
}

/** Runs units until none is left, and one that got nothing done ends it, too. Returns false in that case. */
export async function backfill(
  rollups: Rollups,
  now: () => Millis,
  signal: AbortSignal,
  done: (unit: BackfillUnit) => void = () => {},
): Promise<boolean> {
  while (!signal.aborted) {
    const unit = await rollups.unit(now());
    if (!unit) return true;
    done(unit);
    if (unit.disagreeing > 0 && unit.disagreeing === unit.hours) return false;
  }
  return true;
}

/** Keeps the rollups up to date for as long as an ingest runs. */
export class RollupKeeper {
  private readonly stopping = new AbortController();
  private readonly rate = new RateLimit();
  private running: Promise<void> = Promise.resolve();

  start(rollups: Rollups, everyMs: number, clock: Clock, log: Log): void {
    this.running = this.run(rollups, everyMs, clock, log);
  }

  /** Finishes the unit it is at. */
  async close(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  private async run(rollups: Rollups, everyMs: number, clock: Clock, log: Log): Promise<void> {
    const { signal } = this.stopping;
    for (;;) {
      await sleep(everyMs, signal);
      if (signal.aborted) return;
      try {
        const agreed = await backfill(rollups, () => clock.now(), signal);
        while (!signal.aborted && (await rollups.expire(clock.now())));
        if (!agreed) this.complain(log, 'readings were counted that the rollups do not have');
      } catch (error) {
        this.complain(log, messageOf(error));
      }
    }
  }

  private complain(log: Log, reason: string): void {
    const held = this.rate.pass(reason);
    if (held !== undefined) log.warn({ reason, held }, 'Hourly rollups are not up to date; their views still are');
  }
}
