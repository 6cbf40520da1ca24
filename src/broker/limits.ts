/** Every bound of the broker; the defaults are for a gateway with 512 MiB of memory. */
export interface BrokerLimits {
  /** A packet on the wire. Mosquitto's clients and hubs stay far below; 1 MiB holds a picture or a recipe. */
  readonly packetBytesMax: number;
  /** The same before CONNECT has been accepted: room for ids, a will and a token, not for filling memory. */
  readonly connectBytesMax: number;
  /** A connection whose CONNECT has not come after this long is closed, and one that waits this long for its session. */
  readonly connectTimeoutMs: number;
  /** Connections, accepted or not; more are closed at once. */
  readonly clientsMax: number;
  /** The same for one network address, and new ones from it in a second. Many plants have all clients behind one. */
  readonly clientsPerAddressMax: number;
  readonly connectRateMax: number;
  /** Longest keepalive; clients of version 5 with none or a longer one are told this. Infinity: whatever they like. */
  readonly keepaliveMaxS: number;
  /** A topic or a filter, in bytes of UTF-8 and in levels. Real plants have about ten levels. */
  readonly topicBytesMax: number;
  readonly topicLevelsMax: number;
  /** Sessions, connected or not; a new one beyond is refused with quota exceeded. */
  readonly sessionsMax: number;
  /** Longest time a session may outlive its connection. */
  readonly sessionExpiryMaxS: number;
  readonly subscriptionsPerSessionMax: number;
  /** Rows kept for one persistent session; beyond, messages are dropped for it, and counted. */
  readonly sessionQueueRowsMax: number;
  /** The same in bytes of payload: rows alone bound nothing where messages are large. */
  readonly sessionQueueBytesMax: number;
  /** What gives way in a full queue, of a clean session too: the message that comes, or those that have waited longest. */
  readonly sessionQueuePolicy: 'drop-newest' | 'drop-oldest';
  /** The same for a clean session, in memory. */
  readonly cleanQueueMessagesMax: number;
  readonly cleanQueueBytesMax: number;
  /** Messages sent to a client and not acknowledged; a smaller Receive Maximum of the client wins. */
  readonly windowMessagesMax: number;
  /** Above this many unsent bytes in a socket nothing more is written to it, and QoS 0 is dropped. */
  readonly socketBytesMax: number;
  /** PUBLISH packets of one client in a second, and their bytes: above, it is read more slowly. Infinity: no limit. */
  readonly clientMessageRateMax: number;
  readonly clientByteRateMax: number;
  /** Advertised in CONNACK. Clients that ignore it are slowed by TCP, not thrown out: popular ones do. */
  readonly receiveMaximum: number;
  /** Throws them out nevertheless, as the standard wants it [MQTT-3.3.4-9]. */
  readonly strictReceiveMaximum: boolean;
  /** Received and not yet durable, per client: above, its socket is not read. */
  readonly pendingMessagesMax: number;
  readonly pendingBytesMax: number;
  /** The same over all clients. */
  readonly pendingBytesTotalMax: number;
  /** QoS 2 messages of one client whose release is outstanding. Above Receive Maximum: 3.1.1 does not know that limit. */
  readonly halfOpenMax: number;
  readonly topicAliasMax: number;
  readonly retainedMax: number;
  readonly retainedBytesMax: number;
  /** Tell subscribers of version 5 since when a retained value stands. */
  readonly retainedTime: boolean;
  readonly sysIntervalMs: number;
  /** How often messages that have expired are looked for, in the queues of clients that are away and among the retained. */
  readonly expirySweepMs: number;
}

export const DEFAULT_LIMITS: BrokerLimits = {
  packetBytesMax: 1024 * 1024,
  connectBytesMax: 16 * 1024,
  connectTimeoutMs: 5_000,
  clientsMax: 10_000,
  clientsPerAddressMax: 5_000,
  connectRateMax: 200,
  keepaliveMaxS: Number.POSITIVE_INFINITY,
  topicBytesMax: 1024,
  topicLevelsMax: 20,
  sessionsMax: 10_000,
  sessionExpiryMaxS: Number.POSITIVE_INFINITY,
  subscriptionsPerSessionMax: 10_000,
  sessionQueueRowsMax: 100_000,
  sessionQueueBytesMax: 256 * 1024 * 1024,
  sessionQueuePolicy: 'drop-newest',
  cleanQueueMessagesMax: 20_000,
  cleanQueueBytesMax: 8 * 1024 * 1024,
  windowMessagesMax: 1_000,
  socketBytesMax: 1024 * 1024,
  clientMessageRateMax: Number.POSITIVE_INFINITY,
  clientByteRateMax: Number.POSITIVE_INFINITY,
  receiveMaximum: 500,
  strictReceiveMaximum: false,
  pendingMessagesMax: 1_000,
  pendingBytesMax: 8 * 1024 * 1024,
  pendingBytesTotalMax: 64 * 1024 * 1024,
  halfOpenMax: 1_000,
  topicAliasMax: 100,
  retainedMax: 100_000,
  retainedBytesMax: 64 * 1024 * 1024,
  retainedTime: false,
  sysIntervalMs: 10_000,
  expirySweepMs: 60_000,
};
