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
  /** The spool was full and the client was told so, where that is configured. */
  'refused',
  /** Delivered, but not kept as the topic's retained message. */
  'retained-full',
] as const;
export type DropReason = (typeof DROP_REASONS)[number];

export class Counters {
  /** PUBLISH packets of clients, and bytes of their payloads. */
  received = 0;
  receivedPayloadBytes = 0;
  sent = 0;
  sentPayloadBytes = 0;
  /** Packets of all kinds, and their bytes. */
  packetsReceived = 0;
  receivedBytes = 0;
  packetsSent = 0;
  sentBytes = 0;
  /** CONNECT packets. */
  connects = 0;
  /** Connections taken, and those that were turned away: too many, of all or of one address, or too fast. */
  connections = 0;
  turnedAway = 0;
  /** Clients that were not let in. */
  failedLogins = 0;
  /** Clients that are connected, and the most there were at one time. */
  clients = 0;
  clientsPeak = 0;
  /** Times that a client took its session over from a connection that was open. */
  takeovers = 0;
  sessionsExpired = 0;
  readonly dropped = Object.fromEntries(DROP_REASONS.map((reason) => [reason, 0])) as Record<DropReason, number>;

  countClient(change: 1 | -1): void {
    this.clients += change;
    this.clientsPeak = Math.max(this.clientsPeak, this.clients);
  }
}
