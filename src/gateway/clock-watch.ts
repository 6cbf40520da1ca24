/**
 * Notices when somebody sets the machine's clock: a boot without network time that is corrected later, a wrong hand, a
 * suspended machine. Nothing in the gateway depends on the wall clock but the times it writes down, and those are wrong
 * before the step or after it. So the step itself goes into the stream, as a record of the gateway's: a reader of the
 * history can tell time that never happened from time in which nothing was read.
 */
import type { Clock } from '../lib/clock.js';
import type { Log } from '../lib/log.js';
import type { Gap } from '../model/gap.js';
import type { Millis } from '../model/ids.js';
import type { ClockStatus } from '../model/status.js';

const LOOK_MS = 1_000;
/** Network time moves a clock by 0.5 ms a second without a step; a smaller step changes nothing that anybody reads here. */
const STEP_MS_MIN = 1_000;

export interface ClockWatchOptions {
  readonly gateway: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Takes the record of a step. */
  readonly onStep: (gap: Gap) => void;
}

export class ClockWatch {
  private readonly options: ClockWatchOptions;
  private readonly timer: NodeJS.Timeout;
  /** Wall time minus monotonic time. */
  private offset: number;
  private steps = 0;
  private lastStepMs: number | null = null;
  private lastStepAt: Millis | null = null;

  constructor(options: ClockWatchOptions) {
    this.options = options;
    this.offset = this.offsetNow();
    this.timer = setInterval(() => this.look(), LOOK_MS);
    this.timer.unref();
  }

  /** To be told when the last run was alive: a clock that is behind that has lost its battery, or was set back meanwhile. */
  compare(aliveAt: Millis): void {
    const now = this.options.clock.now();
    if (aliveAt - now >= STEP_MS_MIN) this.stepped(aliveAt, now);
  }

  status(): ClockStatus {
    return { steps: this.steps, lastStepMs: this.lastStepMs, lastStepAt: this.lastStepAt };
  }

  close(): void {
    clearInterval(this.timer);
  }

  private look(): void {
    const before = this.offset;
    this.offset = this.offsetNow();
    if (Math.abs(this.offset - before) < STEP_MS_MIN) return;
    const mono = this.options.clock.mono();
    this.stepped(Math.round(before + mono) as Millis, Math.round(this.offset + mono) as Millis);
  }

  private stepped(from: Millis, to: Millis): void {
    const { gateway, log, onStep } = this.options;
    this.steps++;
    this.lastStepMs = to - from;
    this.lastStepAt = to;
    const detail = `the clock went ${to > from ? 'forward' : 'back'} by ${Math.abs(to - from) / 1000} s`;
    log.warn({ stepMs: to - from }, `${detail}; order and retention do not depend on it`);
    const [first, last] = from < to ? [from, to] : [to, from];
    onStep({ asset: gateway, from: first, to: last, count: 0, reason: 'clock-step', detail });
  }

  private offsetNow(): number {
    const { clock } = this.options;
    return clock.now() - clock.mono();
  }
}
