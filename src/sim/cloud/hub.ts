import type { IPublishPacket } from 'mqtt-packet';
import type { CloudFaults } from './faults.js';
import type { CloudMessage, Session } from './session.js';
import type { CloudState } from './state.js';

export interface ConnectionCounters {
  connects: number;
  /** CONNECTs answered with a refusal. */
  connectsRefused: number;
  publishes: number;
  publishedBytes: number;
  /** Publishes that carried DUP. */
  duplicates: number;
  /** Publishes answered with a code from 0x80 on, or with a close in 3.1.1. */
  publishesRefused: number;
  acks: number;
  acksSwallowed: number;
  /** The most publishes that one connection has had unacknowledged at a time. */
  unackedMax: number;
  protocolErrors: number;
}

/** What a connection needs of its broker. */
export interface Hub {
  readonly faults: CloudFaults;
  readonly state: CloudState;
  readonly counters: ConnectionCounters;
  readonly packetBytesMax: number;
  readonly outWindowMax: number;
  readonly random: () => number;
  /** A publish that has been taken and routed. */
  accepted(message: CloudMessage, packet: IPublishPacket, from: Session): void;
}

export function noConnectionsYet(): ConnectionCounters {
  return {
    connects: 0,
    connectsRefused: 0,
    publishes: 0,
    publishedBytes: 0,
    duplicates: 0,
    publishesRefused: 0,
    acks: 0,
    acksSwallowed: 0,
    unackedMax: 0,
    protocolErrors: 0,
  };
}
