/** MQTT 5 reason codes that this broker gives [MQTT 5.0 §2.4]. */
export const REASON = {
  success: 0x00,
  noMatchingSubscribers: 0x10,
  noSubscriptionExisted: 0x11,
  malformedPacket: 0x81,
  protocolError: 0x82,
  clientIdNotValid: 0x85,
  serverUnavailable: 0x88,
  serverShuttingDown: 0x8b,
  badAuthenticationMethod: 0x8c,
  keepAliveTimeout: 0x8d,
  sessionTakenOver: 0x8e,
  topicFilterInvalid: 0x8f,
  topicNameInvalid: 0x90,
  packetIdNotFound: 0x92,
  receiveMaximumExceeded: 0x93,
  topicAliasInvalid: 0x94,
  packetTooLarge: 0x95,
  quotaExceeded: 0x97,
  sharedSubscriptionsNotSupported: 0x9e,
  subscriptionIdsNotSupported: 0xa1,
} as const;

/** From here on a code is a refusal. */
export const REFUSED = 0x80;

/** CONNACK return codes of MQTT 3.1.1 §3.2.2.3, indices 1 to 5, as MQTT 5 says them. */
const RETURN_CODES: readonly number[] = [0x00, 0x84, 0x85, 0x88, 0x86, 0x87];
const SERVER_UNAVAILABLE_3 = 3;

/** A refusal of CONNECT in the words of the client's version, whichever of the two it was given in. */
export function connackCode(version: 4 | 5, code: number): number {
  if (version === 5) return RETURN_CODES[code] ?? code;
  if (code < RETURN_CODES.length) return code;
  const known = RETURN_CODES.indexOf(code);
  return known > 0 ? known : SERVER_UNAVAILABLE_3;
}
