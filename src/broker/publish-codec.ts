/** PUBLISH and the acknowledgements, the packets of the hot path, coded by hand. Everything rarer is left to mqtt-packet. */
import type { Qos } from '../model/message.js';
import { MESSAGE_EXPIRY, type Properties, SUBSCRIPTION_ID, scanProperties, TOPIC_ALIAS } from './properties.js';
import { ProtocolError, REASON } from './reason.js';

export interface PublishPacket {
  readonly topic: string;
  readonly topicBytes: Buffer;
  readonly payload: Buffer;
  readonly qos: Qos;
  readonly retain: boolean;
  /** 0 for QoS 0. */
  readonly packetId: number;
  readonly properties: Properties | null;
}

/** First bytes of the acknowledgements, flags included [MQTT5 2.1.3]. */
export const ACK = { puback: 0x40, pubrec: 0x50, pubrel: 0x62, pubcomp: 0x70 } as const;
export type AckByte = (typeof ACK)[keyof typeof ACK];

const PUBLISH = 0x30;
const DUP_BIT = 8;
const RETAIN_BIT = 1;

/** `frame` is one whole packet, its body at `bodyAt`. The payload is a view of it. */
export function decodePublish(frame: Buffer, bodyAt: number, version: number): PublishPacket {
  const first = frame[0] as number;
  const qos = (first >> 1) & 3;
  if (qos === 3) throw new ProtocolError(REASON.malformed, 'QoS 3');
  if (qos === 0 && first & DUP_BIT) throw new ProtocolError(REASON.malformed, 'DUP with QoS 0');
  let at = bodyAt;
  const take = (bytes: number): number => {
    if (at + bytes > frame.length) throw new ProtocolError(REASON.malformed, 'the packet is too short');
    at += bytes;
    return at - bytes;
  };
  const topicLength = frame.readUInt16BE(take(2));
  const topicAt = take(topicLength);
  const topic = frame.toString('utf8', topicAt, topicAt + topicLength);
  const topicBytes = frame.subarray(topicAt, topicAt + topicLength);
  const packetId = qos > 0 ? frame.readUInt16BE(take(2)) : 0;
  if (qos > 0 && packetId === 0) throw new ProtocolError(REASON.protocolError, 'packet id 0');
  let properties: Properties | null = null;
  if (version === 5) {
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      if (shift > 21) throw new ProtocolError(REASON.malformed, 'a length has more than 4 bytes');
      const byte = frame[take(1)] as number;
      length += (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    const start = take(length);
    if (length > 0) properties = scanProperties(frame.subarray(start, start + length), false);
  }
  const retain = (first & RETAIN_BIT) !== 0;
  return { topic, topicBytes, payload: frame.subarray(at), qos: qos as Qos, retain, packetId, properties };
}

/** How one message goes to one client. */
export interface Shape {
  readonly qos: Qos;
  readonly retain: boolean;
  readonly dup: boolean;
  /** 0 for QoS 0. */
  readonly packetId: number;
  readonly subscriptionIds: readonly number[] | null;
  /** 0: none. */
  readonly alias: number;
  /** True while the client does not know the alias yet, so that the topic goes along. */
  readonly aliasIsNew: boolean;
  /** 0: does not expire. */
  readonly expiryS: number;
}

export interface Content {
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly props: Uint8Array | null;
}

/** Lengths of a PUBLISH that is about to be written. */
export interface Measured {
  readonly bytes: number;
  readonly remaining: number;
  readonly properties: number;
  readonly topicBytes: number;
}

export function measurePublish(version: number, content: Content, shape: Shape): Measured {
  const topicBytes = shape.alias > 0 && !shape.aliasIsNew ? 0 : Buffer.byteLength(content.topic);
  let properties = 0;
  let remaining = 2 + topicBytes + (shape.qos > 0 ? 2 : 0) + content.payload.length;
  if (version === 5) {
    properties = (content.props?.length ?? 0) + (shape.expiryS > 0 ? 5 : 0) + (shape.alias > 0 ? 3 : 0);
    if (shape.subscriptionIds) for (const id of shape.subscriptionIds) properties += 1 + varintBytes(id);
    remaining += varintBytes(properties) + properties;
  }
  return { bytes: 1 + varintBytes(remaining) + remaining, remaining, properties, topicBytes };
}

/** Writes at `start` what `measurePublish` has measured. */
export function writePublish(
  into: Buffer,
  start: number,
  version: number,
  content: Content,
  shape: Shape,
  measured: Measured,
): void {
  into[start] = PUBLISH | (shape.dup ? DUP_BIT : 0) | (shape.qos << 1) | (shape.retain ? RETAIN_BIT : 0);
  let at = putVarint(into, start + 1, measured.remaining);
  at = into.writeUInt16BE(measured.topicBytes, at);
  if (measured.topicBytes > 0) at += into.write(content.topic, at);
  if (shape.qos > 0) at = into.writeUInt16BE(shape.packetId, at);
  if (version === 5) {
    at = putVarint(into, at, measured.properties);
    if (shape.expiryS > 0) {
      into[at++] = MESSAGE_EXPIRY;
      at = into.writeUInt32BE(shape.expiryS, at);
    }
    if (shape.alias > 0) {
      into[at++] = TOPIC_ALIAS;
      at = into.writeUInt16BE(shape.alias, at);
    }
    if (shape.subscriptionIds) {
      for (const id of shape.subscriptionIds) {
        into[at++] = SUBSCRIPTION_ID;
        at = putVarint(into, at, id);
      }
    }
    if (content.props) {
      into.set(content.props, at);
      at += content.props.length;
    }
  }
  into.set(content.payload, at);
}

function varintBytes(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : 4;
}

function putVarint(into: Buffer, start: number, value: number): number {
  let at = start;
  let left = value;
  for (; left > 0x7f; left >>>= 7) into[at++] = (left & 0x7f) | 0x80;
  into[at++] = left;
  return at;
}
