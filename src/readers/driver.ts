import type { Clock } from '../lib/clock.js';
import type { Log } from '../lib/log.js';
import type { Millis } from '../model/ids.js';
import type { Quality, ReadingType } from '../model/reading.js';

/**
 * What every protocol reader is to the gateway. A driver knows registers or nodes and nothing of topics, payloads or the
 * spool; the gateway knows samples and nothing of registers.
 */
export interface Driver {
  /** Returns at once. A device that does not answer is tried for ever, and shows in the status. */
  start(): void;
  /**
   * Ends the poll in progress, hands over what it read and settles everything. Bounded in time, idempotent, never rejects.
   * When the context's `signal` aborts, what is in progress is given up instead.
   */
  stop(): Promise<void>;
  status(): ReaderStatus;
  /**
   * Writes one value, once. Never rejects. `mayStart` is asked at the last moment before anything is sent, and nothing is
   * sent when it says no.
   */
  write(command: WriteCommand, mayStart: () => boolean): Promise<WriteResult>;
}

export interface WriteCommand {
  readonly device: string;
  readonly tag: string;
  /** What is to be written, as readings of the tag have it: a scaled number, a name, a text. */
  readonly value: unknown;
}

export interface WriteResult {
  /**
   * `done`: the device has confirmed it. `rejected`: it was not carried out. `unknown`: it was sent and not confirmed, so
   * it may have been carried out. `expired`: its time was over before it could be sent.
   */
  readonly outcome: 'done' | 'rejected' | 'unknown' | 'expired';
  /** Why it is not done, as a word that stays the same over versions: `value`, `not-writable`, `exception-2`. */
  readonly code?: string;
  readonly detail?: string;
  /** What the device had right afterwards; absent when it could not be read. */
  readonly readBack?: Sample;
}

export interface DriverContext {
  /**
   * Resolves when the batch is durable: that is the back-pressure. A driver waits for it, skips the cycles that come due
   * meanwhile and counts them. Rejects only when the gateway is being ended and the batch is given up.
   */
  emit(batch: SampleBatch): Promise<void>;
  /** Call as often as convenient; the receiver decides what is worth a message. */
  status(status: DeviceStatus): void;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborts when there is no time left for an orderly stop. */
  readonly signal: AbortSignal;
}

export interface Sample {
  readonly tag: string;
  readonly type: ReadingType;
  /** Null with a quality that is not good: the device was asked and gave no usable value. */
  readonly value: number | bigint | boolean | string | null;
  readonly quality: Quality;
}

/** What one answer of a device held. */
export interface SampleBatch {
  readonly device: string;
  /** Wall clock at the arrival of the answer, never the same twice for one tag. */
  readonly ts: Millis;
  readonly samples: readonly Sample[];
  /** Set on the first batch after the device was away or cycles were skipped: the hole that ends here. */
  readonly gap?: SampleGap;
  /** Holes of single tags that end here: the device was there and did not give them. */
  readonly tagGaps?: readonly TagGap[];
  /** Set: all samples go out as one message under this name. */
  readonly message?: string;
}

export interface SampleGap {
  /** The last answer before the hole; the start of the reader when there was none. */
  readonly from: Millis;
  /** The first answer after it. */
  readonly to: Millis;
  /** Readings that were due and not read. */
  readonly missed: number;
  /** The device reports changes by itself, so that nobody knows how many were missed. */
  readonly uncounted?: boolean;
  /** Poll cycles that were due and not run, over all groups. */
  readonly cycles: number;
  readonly reason: 'device-unreachable' | 'polls-skipped';
}

export interface TagGap extends Pick<SampleGap, 'from' | 'to' | 'missed' | 'uncounted'> {
  readonly tag: string;
  /** Absent: the device did not give it. `polls-skipped`: the device let values go before they were fetched. */
  readonly reason?: SampleGap['reason'];
}

/** The metric name under which gaps are published; no tag may carry it. */
export const GAP_METRIC = 'gap';

/** `degraded`: the device answers, but some of its tags cannot be read. */
export type DeviceState = 'online' | 'degraded' | 'offline';

export interface DeviceStatus {
  readonly device: string;
  readonly state: DeviceState;
  readonly since: Millis;
  /** Why it is not online, as a word that stays the same over versions: an error code, `exception-2`, `stopped`. */
  readonly cause?: string;
  readonly lastOkAt: Millis | null;
  /** Over the last few hundred answers; null before the first. */
  readonly rttMs: { readonly p50: number; readonly p99: number } | null;
  readonly timeouts: number;
  /** Answers that came after their request had timed out, and were dropped. */
  readonly lateAnswers: number;
  readonly exceptions: number;
  /** Poll cycles that were due and not run. */
  readonly missedCycles: number;
}

export interface LinkStatus {
  /** `host:port` or the serial device. */
  readonly target: string;
  readonly state: 'closed' | 'connecting' | 'open' | 'resting' | 'backoff';
  readonly cause?: string;
  /** Connections made since the start. */
  readonly connects: number;
}

export interface ReaderStatus {
  readonly protocol: string;
  readonly link: LinkStatus;
  readonly devices: readonly DeviceStatus[];
}
