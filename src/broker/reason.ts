/** Reason codes of MQTT 5 that this broker sends [MQTT5 2.4], and what a 3.1.1 client is told in a CONNACK instead. */
export const REASON = {
  success: 0x00,
  noSubscriptionExisted: 0x11,
  unspecified: 0x80,
  malformed: 0x81,
  protocolError: 0x82,
  implementationError: 0x83,
  badClientId: 0x85,
  badCredentials: 0x86,
  notAuthorized: 0x87,
  serverBusy: 0x89,
  shuttingDown: 0x8b,
  badAuthenticationMethod: 0x8c,
  keepAliveTimeout: 0x8d,
  sessionTakenOver: 0x8e,
  badFilter: 0x8f,
  badTopic: 0x90,
  packetIdNotFound: 0x92,
  receiveMaximumExceeded: 0x93,
  badTopicAlias: 0x94,
  packetTooLarge: 0x95,
  quotaExceeded: 0x97,
  administrativeAction: 0x98,
} as const;
export type Reason = (typeof REASON)[keyof typeof REASON];

/** SUBACK failure of 3.1.1 [MQTT-3.9.3-2]. */
export const SUBSCRIBE_FAILURE_V4 = 0x80;

/** CONNACK return codes of 3.1.1 [3.2.2.3]; anything else has no code there, so the connection is only closed. */
const RETURN_CODE_V4: Partial<Record<Reason, number>> = {
  [REASON.badClientId]: 2,
  [REASON.serverBusy]: 3,
  [REASON.quotaExceeded]: 3,
  [REASON.implementationError]: 3,
  [REASON.badCredentials]: 5,
  [REASON.notAuthorized]: 5,
};

export function returnCodeOf(reason: Reason): number | undefined {
  return RETURN_CODE_V4[reason];
}

/** What a client did wrong, as the code it is told. Ends that client's connection and nothing else. */
export class ProtocolError extends Error {
  readonly reason: Reason;

  constructor(reason: Reason, message: string) {
    super(message);
    this.name = 'ProtocolError';
    this.reason = reason;
  }
}
