/** Why a message did not reach somebody. All exist at 0 from the start, so that a metric never appears out of nowhere. */
export const DROP_REASONS = [
  /** QoS 0 to a subscriber whose socket is full. */
  'slow-subscriber',
  /** The queue of a clean session is full. */
  'clean-queue-full',
  /** The queue of a persistent session is full. */
  'session-queue-full',
  'expired',
  /** Larger than the subscriber's maximum packet size. */
  'too-large',
  /** Published to a topic the client may not write. */
  'denied',
  /** Delivered, but not kept as the topic's retained message. */
  'retained-full',
] as const;
export type DropReason = (typeof DROP_REASONS)[number];

export class Counters {
  /** PUBLISH packets of clients, and bytes of all their packets. */
  received = 0;
  receivedBytes = 0;
  sent = 0;
  sentBytes = 0;
  connections = 0;
  failedLogins = 0;
  readonly dropped = Object.fromEntries(DROP_REASONS.map((reason) => [reason, 0])) as Record<DropReason, number>;
}
