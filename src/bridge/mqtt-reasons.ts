import type { IConnackPacket } from 'mqtt';
import { HoldfastError } from '../lib/errors.js';

/** MQTT 5 reason codes, §2.4. */
export const NO_MATCHING_SUBSCRIBERS = 0x10;
export const FAILURE_MIN = 0x80;
export const NOT_AUTHORIZED = 0x87;
const REASONS: Readonly<Record<number, string>> = {
  128: 'unspecified error',
  129: 'malformed packet',
  130: 'protocol error',
  131: 'implementation specific error',
  132: 'this MQTT version is not supported',
  133: 'the client id is not accepted',
  134: 'bad user name or password',
  135: 'not authorised',
  136: 'the server is unavailable',
  137: 'the server is busy',
  138: 'banned',
  139: 'the server is shutting down',
  141: 'keep alive timeout',
  142: 'another client connected with the same client id',
  144: 'the topic name is not accepted',
  147: 'more batches in flight than the server takes',
  149: 'the packet is too large for the server',
  151: 'quota exceeded',
  152: 'administrative action',
  153: 'the payload format is not accepted',
  155: 'QoS 1 is not supported',
  159: 'too many connections',
};
/** CONNACK return codes of 3.1.1, §3.2.2.3. */
const RETURN_CODES: Readonly<Record<number, string>> = {
  1: 'this MQTT version is not supported',
  2: 'the client id is not accepted',
  3: 'the server is unavailable',
  4: 'bad user name or password',
  5: 'not authorised',
};
const UNAVAILABLE = new Set([3, 136, 137, 139]);
/** Topic name invalid, packet too large, payload format invalid: the same batch will fare no better next time. */
export const BATCH_REFUSED = new Set([0x90, 0x95, 0x99]);

/** In words for an operator. */
export function reason(code: number | undefined): string {
  return code === undefined ? 'no reason given' : (REASONS[code] ?? `reason code ${code}`);
}

/** What a CONNACK says no with; undefined when it says yes. */
export function refusal(
  packet: IConnackPacket,
  { url, protocolVersion }: { readonly url: string; readonly protocolVersion: 4 | 5 },
): HoldfastError | undefined {
  const code = (protocolVersion === 5 ? packet.reasonCode : packet.returnCode) ?? 0;
  if (code === 0) {
    if (packet.properties?.maximumQoS !== 0) return undefined;
    return new HoldfastError('upstream.refused', `${url} grants QoS 0 only, which acknowledges nothing`);
  }
  const text = (protocolVersion === 5 ? REASONS : RETURN_CODES)[code] ?? `code ${code}`;
  const error = UNAVAILABLE.has(code) ? 'upstream.lost' : 'upstream.refused';
  return new HoldfastError(error, `${url} refused the connection: ${text}`, { values: { code } });
}
