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
  return packet;
}

export function encodeControl(packet: Packet, version: number): Buffer {
  return mqtt.generate(packet, { protocolVersion: version });
}

/** A string of CONNECT; bytes that are not UTF-8 have become the replacement character by now [MQTT-1.5.4-1]. */
export function checkText(text: string | undefined, what: string): void {
  if (text !== undefined && /[\0\ufffd]/.test(text)) throw new ProtocolError(REASON.malformed, `bad ${what}`);
}

/** Throws ProtocolError for a will that could not have been published. */
export function readWill(connect: IConnectPacket, limits: BrokerLimits): Will | null {
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
  const properties = scanProperties(encodeWillProperties(will.properties), true);
  const { bytes: props, expiryS = 0, willDelayS: delayS = 0 } = properties;
  return { topic: will.topic, payload, props, qos, retain, expiryS, delayS };
}

/** The will's properties as bytes again; mqtt-packet only hands them out as an object. */
function encodeWillProperties(properties: object | undefined): Buffer {
  if (!properties) return Buffer.alloc(0);
  const publish = { cmd: 'publish', topic: 'x', payload: '', qos: 0, dup: false, retain: false, properties } as const;
  const bytes = mqtt.generate(publish as Packet, { protocolVersion: 5 });
  const [, bodyAt] = readVarint(bytes, 1);
  const [length, start] = readVarint(bytes, bodyAt + 3);
  return bytes.subarray(start, start + length);
}

function readVarint(bytes: Buffer, start: number): [value: number, next: number] {
  let value = 0;
  for (let at = start, shift = 0; ; shift += 7) {
    const byte = bytes[at++] as number;
    value += (byte & 0x7f) << shift;
    if (byte < 0x80) return [value, at];
  }
}
