/** The rare packets, through mqtt-packet: CONNECT, SUBSCRIBE, UNSUBSCRIBE, DISCONNECT in; CONNACK and the like out. */
import mqtt, { type IConnectPacket, type Packet } from 'mqtt-packet';
import type { BrokerLimits } from './limits.js';
import { owned } from './owned.js';
import { scanProperties } from './properties.js';
import { ProtocolError, REASON } from './reason.js';
import type { Will } from './session.js';
import { checkTopic, isReserved } from './topics.js';

/** What a bridge sends in its first CONNECT says so in a bit of the version [mosquitto.conf(5), try_private]. */
export type BridgedConnect = IConnectPacket & { readonly bridgeMode?: boolean };

/** Parses one whole packet. Throws ProtocolError. */
export function parseControl(frame: Buffer, version: number, bridgeMode: boolean): Packet {
  const parser = mqtt.parser({ protocolVersion: version || 4, bridgeMode });
  let packet: Packet | undefined;
  let failure: Error | undefined;
  parser.on('packet', (parsed) => {
    packet ??= parsed;
  });
  parser.on('error', (error: Error) => {
    failure ??= error;
  });
  try {
    parser.parse(frame);
  } catch (error) {
    failure ??= error as Error;
  }
  if (failure || !packet) throw new ProtocolError(REASON.malformed, failure?.message ?? 'the packet is malformed');
  refuseTwice(packet);
  return packet;
}

/** Of these packets only User Properties may come more than once; what mqtt-packet then gives is a list. */
function refuseTwice({ properties }: Packet & { properties?: object }): void {
  if (Object.values(properties ?? {}).some(Array.isArray))
    throw new ProtocolError(REASON.protocolError, 'a property is given twice');
}

export function encodeControl(packet: Packet, version: number): Buffer {
  return mqtt.generate(packet, { protocolVersion: version });
}

/** A string of CONNECT; bytes that are not UTF-8 have become the replacement character by now [MQTT-1.5.4-1]. */
export function checkText(text: string | undefined, what: string): void {
  if (text !== undefined && /[\0\ufffd]/.test(text)) throw new ProtocolError(REASON.malformed, `bad ${what}`);
}

/** Throws ProtocolError for a will that could not have been published. */
export function readWill(connect: IConnectPacket, frame: Buffer, limits: BrokerLimits): Will | null {
  const { will } = connect;
  if (!will) return null;
  checkText(will.topic, 'will topic');
  checkTopic(will.topic, Buffer.from(will.topic), limits);
  if (isReserved(will.topic)) throw new ProtocolError(REASON.badTopic, 'the will topic is reserved');
  const payload = owned(
    typeof will.payload === 'string' ? Buffer.from(will.payload) : (will.payload ?? Buffer.alloc(0)),
  );
  const { qos = 0, retain = false } = will;
  if (qos > 2) throw new ProtocolError(REASON.malformed, 'a will with QoS 3');
  const section = connect.protocolVersion === 5 ? willProperties(frame) : Buffer.alloc(0);
  const properties = scanProperties(section, true);
  const { bytes: props, expiryS = 0, willDelayS: delayS = 0 } = properties;
  return { topic: will.topic, payload, props: props && owned(props), qos, retain, expiryS, delayS };
}

/**
 * The section of the will's properties in a CONNECT of version 5 that has been parsed, as it came: mqtt-packet hands out an
 * object, which has lost the order of User Properties, and values that are not allowed.
 */
function willProperties(frame: Buffer): Buffer {
  const [, bodyAt] = readVarint(frame, 1);
  const afterString = (at: number): number => at + 2 + frame.readUInt16BE(at);
  const afterKeepalive = afterString(bodyAt) + 4;
  const [ownBytes, ownAt] = readVarint(frame, afterKeepalive);
  const [length, start] = readVarint(frame, afterString(ownAt + ownBytes));
  return frame.subarray(start, start + length);
}

function readVarint(bytes: Buffer, start: number): [value: number, next: number] {
  let value = 0;
  for (let at = start, shift = 0; ; shift += 7) {
    const byte = bytes[at++] as number;
    value += (byte & 0x7f) << shift;
    if (byte < 0x80) return [value, at];
  }
}
