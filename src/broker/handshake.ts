/** CONNECT and CONNACK: what the client asks for, what it gets, and how it is refused. */
import { randomUUID } from 'node:crypto';
import type { IConnackPacket, IConnectPacket, Packet } from 'mqtt-packet';
import { type BridgedConnect, checkText, encodeControl, parseControl, readWill } from './control-codec.js';
import type { BrokerLimits } from './limits.js';
import { ProtocolError, REASON, type Reason, returnCodeOf } from './reason.js';
import type { Will } from './session.js';

const EXPIRY_NEVER_S = 0xffff_ffff;
const RECEIVE_MAXIMUM_DEFAULT = 65_535;
const VERSIONS: ReadonlySet<number> = new Set([3, 4, 5]);

export interface Handshake {
  readonly version: number;
  readonly bridgeMode: boolean;
  readonly clientId: string;
  readonly username: string | undefined;
  readonly password: Buffer | undefined;
  readonly cleanStart: boolean;
  readonly expiryS: number;
  readonly keepaliveS: number;
  readonly will: Will | null;
  readonly receiveMaximum: number;
  readonly packetBytesMax: number;
  readonly topicAliasMax: number;
  readonly wantsReasons: boolean;
  /** What the answer has to tell beyond the broker's limits. */
  readonly properties: NonNullable<IConnackPacket['properties']>;
}

/** The version byte of a CONNECT, without the bit of a bridge; anything may be in it. */
export function versionOf(frame: Buffer, bodyAt: number): number {
  const nameBytes = frame.length >= bodyAt + 2 ? frame.readUInt16BE(bodyAt) : 0;
  return (frame[bodyAt + 2 + nameBytes] ?? 0) & 0x7f;
}

export function isSupported(version: number): boolean {
  return VERSIONS.has(version);
}

/** Throws ProtocolError. */
export function readConnect(frame: Buffer, limits: BrokerLimits): Handshake {
  const connect = parseControl(frame, 0, false) as BridgedConnect;
  const version = connect.protocolVersion ?? 4;
  const asked = connect.properties ?? {};
  const properties: Handshake['properties'] = {};
  const { clientId, username, password, clean: cleanStart = true, keepalive: keepaliveS = 0 } = connect;
  checkText(clientId, 'client id');
  checkText(username, 'user name');
  if (version < 5 && password !== undefined && username === undefined)
    // [MQTT-3.1.2-22]
    throw new ProtocolError(REASON.malformed, 'a password without a user name');
  if (asked.authenticationMethod !== undefined)
    throw new ProtocolError(REASON.badAuthenticationMethod, 'there is no enhanced authentication');
  if (asked.receiveMaximum === 0 || asked.maximumPacketSize === 0 || asked.authenticationData !== undefined)
    throw new ProtocolError(REASON.protocolError, 'bad property');
  if (version < 5 && clientId === '' && !cleanStart)
    throw new ProtocolError(REASON.badClientId, 'a session that is kept needs a client id'); // [MQTT-3.1.3-8]
  const id = clientId || `holdfast-${randomUUID()}`;
  if (version === 5 && clientId === '') properties.assignedClientIdentifier = id;
  return {
    version,
    bridgeMode: connect.bridgeMode === true,
    clientId: id,
    username,
    password,
    cleanStart,
    expiryS: expiryOf(connect, limits, properties),
    keepaliveS: keepaliveOf(version, keepaliveS, limits, properties),
    will: readWill(connect, frame, limits),
    receiveMaximum: asked.receiveMaximum ?? RECEIVE_MAXIMUM_DEFAULT,
    packetBytesMax: asked.maximumPacketSize ?? Number.POSITIVE_INFINITY,
    topicAliasMax: asked.topicAliasMaximum ?? 0,
    wantsReasons: asked.requestProblemInformation !== false,
    properties,
  };
}

/** A session of 3.1.1 that is kept has no end, but for the broker's own limit. */
function expiryOf(connect: IConnectPacket, limits: BrokerLimits, properties: Handshake['properties']): number {
  if (connect.protocolVersion !== 5) return connect.clean ? 0 : limits.sessionExpiryMaxS;
  const askedS = connect.properties?.sessionExpiryInterval ?? 0;
  const granted = cappedExpiry(askedS, limits);
  if (granted < askedS && granted < EXPIRY_NEVER_S) properties.sessionExpiryInterval = granted;
  return granted;
}

/** A client of 3.1.1 cannot be told another one, and is held to its own [MQTT5 3.2.2.3.14]. */
function keepaliveOf(
  version: number,
  askedS: number,
  { keepaliveMaxS }: BrokerLimits,
  properties: Handshake['properties'],
): number {
  if (version < 5 || (askedS > 0 && askedS <= keepaliveMaxS) || keepaliveMaxS === Number.POSITIVE_INFINITY)
    return askedS;
  properties.serverKeepAlive = keepaliveMaxS;
  return keepaliveMaxS;
}

/** Session Expiry Interval as seconds, Infinity for never [MQTT5 3.1.2.11.2]. */
export function cappedExpiry(askedS: number, limits: BrokerLimits): number {
  return Math.min(askedS === EXPIRY_NEVER_S ? Number.POSITIVE_INFINITY : askedS, limits.sessionExpiryMaxS);
}

/** What Aedes sees: a clean 3.1.1 client without will and keepalive. */
export function toAedes({ clientId, username, password }: Handshake): Packet {
  return {
    cmd: 'connect',
    protocolId: 'MQTT',
    protocolVersion: 4,
    clientId,
    clean: true,
    keepalive: 0,
    // 3.1.1 has no password without a user name.
    ...(username !== undefined || password !== undefined ? { username: username ?? '' } : {}),
    ...(password !== undefined ? { password } : {}),
  };
}

export function acceptance({ version, properties }: Handshake, present: boolean, limits: BrokerLimits): Buffer {
  if (version < 5) return Buffer.from([0x20, 2, version === 4 && present ? 1 : 0, 0]);
  const { receiveMaximum, packetBytesMax: maximumPacketSize, topicAliasMax: topicAliasMaximum } = limits;
  return encodeControl(
    {
      cmd: 'connack',
      reasonCode: 0,
      sessionPresent: present,
      properties: { receiveMaximum, maximumPacketSize, topicAliasMaximum, ...properties },
    },
    5,
  );
}

/** The CONNACK that refuses, or null where the version has no code for it and the end of the connection must do. */
export function refusal(version: number, reason: Reason, reasonString: string): Buffer | null {
  if (version === 5) {
    const properties = { reasonString };
    return encodeControl({ cmd: 'connack', reasonCode: reason, sessionPresent: false, properties }, 5);
  }
  const code = returnCodeOf(reason);
  return code === undefined ? null : Buffer.from([0x20, 2, 0, code]);
}

/** "Unacceptable protocol version" in the form that clients of any version understand [MQTT-3.1.2-2]. */
export const VERSION_REFUSAL = Buffer.from([0x20, 2, 0, 1]);
