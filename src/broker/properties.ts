/**
 * The properties of a PUBLISH and of a will [MQTT5 3.3.2.3, 3.1.3.2], scanned in place. What travels with the message stays
 * as it came, byte for byte, because the order of User Properties must be kept [MQTT-3.3.2-18]; only alias, expiry and will
 * delay are taken out.
 */
import { isUtf8 } from 'node:buffer';
import { ProtocolError, REASON } from './reason.js';

export interface Properties {
  /** What is passed on to subscribers, or null. */
  readonly bytes: Uint8Array | null;
  readonly alias: number | undefined;
  readonly expiryS: number | undefined;
  readonly willDelayS: number | undefined;
}

const PAYLOAD_FORMAT = 0x01;
export const MESSAGE_EXPIRY = 0x02;
const CONTENT_TYPE = 0x03;
const RESPONSE_TOPIC = 0x08;
const CORRELATION_DATA = 0x09;
export const SUBSCRIPTION_ID = 0x0b;
const WILL_DELAY = 0x18;
export const TOPIC_ALIAS = 0x23;
const USER_PROPERTY = 0x26;

/** Throws ProtocolError: malformed when it runs past its section, protocol error for what does not belong here. */
export function scanProperties(section: Buffer, ofWill: boolean): Properties {
  let alias: number | undefined;
  let expiryS: number | undefined;
  let willDelayS: number | undefined;
  const seen: number[] = [];
  const kept: Buffer[] = [];
  let at = 0;
  const take = (bytes: number): number => {
    if (at + bytes > section.length) throw new ProtocolError(REASON.malformed, 'a property runs past its section');
    at += bytes;
    return at - bytes;
  };
  const binary = (): Buffer => {
    const length = section.readUInt16BE(take(2));
    const start = take(length);
    return section.subarray(start, start + length);
  };
  while (at < section.length) {
    const start = at;
    const id = section[take(1)] as number;
    if (id !== USER_PROPERTY) {
      if (seen.includes(id)) throw new ProtocolError(REASON.protocolError, 'a property is given twice');
      seen.push(id);
    }
    let passesOn = true;
    switch (id) {
      case PAYLOAD_FORMAT:
        if ((section[take(1)] as number) > 1) throw new ProtocolError(REASON.protocolError, 'bad payload format');
        break;
      case MESSAGE_EXPIRY:
        expiryS = section.readUInt32BE(take(4));
        passesOn = false;
        break;
      case CONTENT_TYPE:
        text(binary());
        break;
      case RESPONSE_TOPIC:
        if (/[+#]/.test(text(binary()))) throw new ProtocolError(REASON.protocolError, 'wildcard in a response topic');
        break;
      case CORRELATION_DATA:
        binary();
        break;
      case USER_PROPERTY:
        text(binary());
        text(binary());
        break;
      case TOPIC_ALIAS:
        if (ofWill) throw foreign(id);
        alias = section.readUInt16BE(take(2));
        passesOn = false;
        break;
      case WILL_DELAY:
        if (!ofWill) throw foreign(id);
        willDelayS = section.readUInt32BE(take(4));
        passesOn = false;
        break;
      default:
        throw foreign(id);
    }
    if (passesOn) kept.push(section.subarray(start, at));
  }
  const bytes = kept.length === 0 ? null : kept.length === 1 ? (kept[0] as Buffer) : Buffer.concat(kept);
  return { bytes, alias, expiryS, willDelayS };
}

/** Properties with one more User Property behind them: those of the publisher keep their bytes and their order. */
export function withUserProperty(bytes: Uint8Array | null, name: string, value: string): Uint8Array {
  const parts = [name, value].flatMap((text) => {
    const length = Buffer.alloc(2);
    length.writeUInt16BE(Buffer.byteLength(text));
    return [length, Buffer.from(text)];
  });
  return Buffer.concat([bytes ?? Buffer.alloc(0), Buffer.from([USER_PROPERTY]), ...parts]);
}

function foreign(id: number): ProtocolError {
  return new ProtocolError(REASON.protocolError, `property ${id} does not belong here`);
}

/** A UTF-8 string as MQTT allows it: well-formed and without NUL [MQTT-1.5.4-1, MQTT-1.5.4-2]. */
function text(bytes: Buffer): string {
  if (!isUtf8(bytes) || bytes.includes(0)) throw new ProtocolError(REASON.malformed, 'a string is not valid UTF-8');
  return bytes.toString();
}
