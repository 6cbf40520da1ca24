import { randomUUID } from 'node:crypto';
import type { IConnackPacket, IConnectPacket } from 'mqtt-packet';
import type { Hub } from './hub.js';
import { connackCode, REASON } from './reason.js';

export type Version = 4 | 5;

/** What both sides have agreed on for one connection. */
export interface Terms {
  readonly version: Version;
  readonly clientId: string;
  /** The client gave no id [MQTT-3.1.3-6]. */
  readonly assigned: boolean;
  readonly cleanStart: boolean;
  /** Infinity: the session does not end by itself. */
  readonly sessionExpirySeconds: number;
  /** Infinity: no keepalive. */
  readonly silenceMsMax: number;
  /** Unacknowledged publishes to the client, and from it. */
  readonly sendWindowMax: number;
  readonly receiveWindowMax: number;
  readonly sendBytesMax: number;
}

/** The server waits one and a half times the keepalive [MQTT-3.1.2-22]. */
const SILENCE_MS_PER_KEEPALIVE_S = 1500;
const SESSION_NEVER_ENDS = 0xffff_ffff;

/** 3.1 counts as 3.1.1. */
export function versionOf(packet: IConnectPacket): Version {
  return packet.protocolVersion === 5 ? 5 : 4;
}

/** The code that this CONNECT is refused with, if it is. */
export function refusalOf(packet: IConnectPacket, hub: Hub): number | undefined {
  if (hub.faults.refuseConnect !== null) return hub.faults.refuseConnect;
  if (packet.properties?.authenticationMethod !== undefined) return REASON.badAuthenticationMethod;
  // [MQTT-3.1.3-8]
  if (packet.clientId === '' && versionOf(packet) === 4 && packet.clean === false) return REASON.clientIdNotValid;
  return undefined;
}

export function termsOf(packet: IConnectPacket, hub: Hub): Terms {
  const version = versionOf(packet);
  const given = (version === 5 && packet.properties) || {};
  const cleanStart = packet.clean ?? true;
  const expiry = version === 5 ? (given.sessionExpiryInterval ?? 0) : cleanStart ? 0 : SESSION_NEVER_ENDS;
  return {
    version,
    clientId: packet.clientId || `assigned-${randomUUID()}`,
    assigned: !packet.clientId,
    cleanStart,
    sessionExpirySeconds: secondsOf(expiry),
    silenceMsMax: packet.keepalive ? packet.keepalive * SILENCE_MS_PER_KEEPALIVE_S : Number.POSITIVE_INFINITY,
    sendWindowMax: Math.min(hub.outWindowMax, given.receiveMaximum ?? hub.outWindowMax),
    receiveWindowMax: (version === 5 && hub.faults.receiveMaximum) || Number.POSITIVE_INFINITY,
    sendBytesMax: given.maximumPacketSize ?? Number.POSITIVE_INFINITY,
  };
}

/** A session expiry interval of a packet [MQTT 5.0 §3.1.2.11.2]. */
export function secondsOf(interval: number): number {
  return interval === SESSION_NEVER_ENDS ? Number.POSITIVE_INFINITY : interval;
}

export function granted(terms: Terms, sessionPresent: boolean, packetBytesMax: number): IConnackPacket {
  if (terms.version === 4) return { cmd: 'connack', sessionPresent, returnCode: 0 };
  const properties: NonNullable<IConnackPacket['properties']> = {
    maximumPacketSize: packetBytesMax,
    sharedSubscriptionAvailable: false,
    subscriptionIdentifiersAvailable: false,
  };
  if (Number.isFinite(terms.receiveWindowMax)) properties.receiveMaximum = terms.receiveWindowMax;
  if (terms.assigned) properties.assignedClientIdentifier = terms.clientId;
  return { cmd: 'connack', sessionPresent, reasonCode: REASON.success, properties };
}

export function refused(version: Version, code: number): IConnackPacket {
  const known = connackCode(version, code);
  return { cmd: 'connack', sessionPresent: false, returnCode: known, reasonCode: known };
}
