import { z } from 'zod';
import { delayMs, spend, times } from '../faults.js';

/**
 * What can be wrong with the cloud. All of it can be switched while it runs; what concerns CONNECT or CONNACK takes effect
 * with the next connection. Counted faults count down by themselves.
 */
export const cloudFaults = z.strictObject({
  /** CONNACK with this code, then close. Codes of 3.1.1 (1 to 5) and of 5 (0x80 …) are translated to the client's version. */
  refuseConnect: z.int().min(1).max(255).nullable(),
  /** CONNECT is read and nothing ever comes back. */
  noConnack: z.boolean(),
  /** How long each PUBACK and PUBREC waits. The message itself is delivered at once. */
  ackDelayMs: delayMs,
  /** So many of the next PUBACKs and PUBRECs are never sent; their messages are delivered all the same. */
  swallowAcks: times,
  /** Other orders gather up to `ackWindow` acknowledgements, for a short time, and send them permuted. */
  ackOrder: z.enum(['fifo', 'reverse', 'random']),
  ackWindow: z.int().min(1).max(65_535),
  /**
   * The next `count` publishes above QoS 0 are answered with this reason code. From 0x80 on they are not delivered. MQTT 3.1.1 has no
   * such code: there a refusal closes the connection, and other codes look like success.
   */
  ackCode: z.strictObject({ code: z.int().min(0).max(255), count: times }).nullable(),
  /** Said in CONNACK and enforced with 0x93; MQTT 5 only. Null: 65 535, the protocol's own. */
  receiveMaximum: z.int().min(1).max(65_535).nullable(),
  /** Said in CONNACK and enforced: 0x95 in MQTT 5, a plain close in 3.1.1. Null: the broker's own limit. */
  maximumPacketSize: z.int().min(1).nullable(),
  /** After so many more publishes the connection of the last one is reset: that one is delivered, not acknowledged. */
  resetAfterPublishes: z.int().min(1).nullable(),
  /** Everything is read and nothing answered. A connection that fell in stays dead when the hole is gone; new ones work. */
  blackHole: z.boolean(),
  /** Nobody listens: connections are refused and the open ones reset. Sessions are kept. */
  absent: z.boolean(),
});
export type CloudFaults = z.infer<typeof cloudFaults>;

export const NO_FAULTS: CloudFaults = {
  refuseConnect: null,
  noConnack: false,
  ackDelayMs: 0,
  swallowAcks: 0,
  ackOrder: 'fifo',
  ackWindow: 8,
  ackCode: null,
  receiveMaximum: null,
  maximumPacketSize: null,
  resetAfterPublishes: null,
  blackHole: false,
  absent: false,
};

/** The code the faults want the next publish to be answered with, if any; counts it. */
export function forcedAckCode(faults: CloudFaults): number | undefined {
  if (!faults.ackCode) return undefined;
  const { code, count } = faults.ackCode;
  const left = spend(count);
  faults.ackCode = left ? { code, count: left } : null;
  return left === undefined ? undefined : code;
}

/** True when the connection of this publish has to be reset; counts it. */
export function resetsNow(faults: CloudFaults): boolean {
  if (faults.resetAfterPublishes === null) return false;
  const left = faults.resetAfterPublishes - 1;
  faults.resetAfterPublishes = left > 0 ? left : null;
  return left === 0;
}
