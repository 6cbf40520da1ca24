import { HoldfastError } from '../lib/errors.js';
import type { Millis } from '../model/ids.js';
import type { DeviceState, DeviceStatus, DriverContext, SampleGap } from './driver.js';
import { Latency } from './latency.js';

/** What is known of a device: its state and since when, its counters, its bad tags, and the hole in its data if there is one. */
export class DeviceRecord {
  readonly device: string;
  private readonly context: DriverContext;
  private readonly lateAnswers: () => number;
  private readonly startedAt: Millis;
  private readonly latency = new Latency();
  private readonly badTags = new Map<object, string>();
  private state: DeviceState = 'offline';
  private since: Millis;
  private offlineCause: string | undefined = 'connecting';
  private hole: { readonly from: Millis; missed: number; cycles: number } | undefined;
  private lastOkAt: Millis | null = null;
  private timeouts = 0;
  private exceptions = 0;
  private missedCycles = 0;

  constructor(device: string, context: DriverContext, lateAnswers: () => number) {
    this.device = device;
    this.context = context;
    this.lateAnswers = lateAnswers;
    this.startedAt = context.clock.now();
    this.since = this.startedAt;
  }

  answered(at: Millis, rttMs: number): void {
    this.lastOkAt = at;
    this.latency.add(rttMs);
  }

  /** Heard of without being asked, so that there is no time from question to answer. */
  heard(at: Millis): void {
    this.lastOkAt = at;
  }

  failed(error: unknown): void {
    if (!(error instanceof HoldfastError)) return;
    if (error.code === 'device.exception') this.exceptions++;
    else if (error.code === 'device.timeout') this.timeouts++;
  }

  goOffline(cause: string): void {
    this.offlineCause = cause;
    this.hole ??= { from: this.lastOkAt ?? this.startedAt, missed: 0, cycles: 0 };
    this.refresh();
  }

  comeBack(): void {
    if (this.offlineCause === undefined) return;
    this.offlineCause = undefined;
    this.refresh();
  }

  /** Cycles of a group that were due and not run, and the readings that each would have given. */
  countMissed(cycles: number, readingsEach: number): void {
    this.missedCycles += cycles;
    if (!this.hole || this.offlineCause === undefined) return;
    this.hole.missed += cycles * readingsEach;
    this.hole.cycles += cycles;
  }

  /** The hole that the answer of `to` ends: for the first batch after it, undefined for all others. */
  takeGap(to: Millis): SampleGap | undefined {
    const { hole } = this;
    this.hole = undefined;
    return hole && { ...hole, to, reason: 'device-unreachable' };
  }

  /** False when the tag was bad already: it is reported once, and then silent until it is good again. */
  markBad(tag: object, cause: string): boolean {
    const fresh = !this.badTags.has(tag);
    this.badTags.set(tag, cause);
    return fresh;
  }

  markGood(tags: readonly object[]): void {
    if (this.badTags.size > 0) for (const tag of tags) this.badTags.delete(tag);
  }

  isBad(tag: object): boolean {
    return this.badTags.has(tag);
  }

  /** Works the state out anew and tells the context. */
  refresh(): void {
    const state = this.offlineCause !== undefined ? 'offline' : this.badTags.size > 0 ? 'degraded' : 'online';
    if (state !== this.state) this.since = this.context.clock.now();
    this.state = state;
    this.context.status(this.status());
  }

  status(): DeviceStatus {
    const cause = this.offlineCause ?? this.badTags.values().next().value;
    return {
      device: this.device,
      state: this.state,
      since: this.since,
      ...(cause === undefined ? {} : { cause }),
      lastOkAt: this.lastOkAt,
      rttMs: this.latency.percentiles(),
      timeouts: this.timeouts,
      lateAnswers: this.lateAnswers(),
      exceptions: this.exceptions,
      missedCycles: this.missedCycles,
    };
  }
}
