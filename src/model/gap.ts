import type { Millis } from './ids.js';

export const GAP_REASONS = [
  'device-unreachable',
  'polls-skipped',
  'gateway-down',
  'spool-full',
  'spool-corrupt',
  'expired',
  'too-large',
  'clock-step',
] as const;
export type GapReason = (typeof GAP_REASONS)[number];

/**
 * A hole that is known: what was not read or not kept, instead of silence. A `clock-step` is none: nothing is missing, but
 * times before and after it do not follow on each other.
 */
export interface Gap {
  readonly asset: string;
  /** Absent: the whole asset. */
  readonly metric?: string;
  readonly from: Millis;
  readonly to: Millis;
  /** Readings missing, where it is known. */
  readonly count?: number;
  readonly reason: GapReason;
  readonly detail?: string;
}
