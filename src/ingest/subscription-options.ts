import type { IClientOptions } from 'mqtt';
import type { TlsFiles } from '../lib/dial.js';

export interface SubscriptionOptions {
  /** `mqtt://`, `mqtts://`, `ws://` or `wss://`. */
  readonly url: string;
  /** Names the session that the broker keeps while this program is away, so it must stay the same. */
  readonly clientId: string;
  readonly topics: readonly string[];
  readonly protocolVersion?: 4 | 5;
  readonly username?: string;
  readonly password?: string;
  readonly tls?: TlsFiles;
  readonly keepaliveS?: number;
  /** How long the broker keeps the session; MQTT 5 only, 3.1.1 leaves it to the broker. */
  readonly sessionExpiryS?: number;
  /** Unacknowledged messages at a time. */
  readonly receiveMaximum?: number;
  readonly connectTimeoutMs?: number;
}

const KEEPALIVE_S = 30;
/** A week: an ingest that is repaired after a long weekend still finds every batch, if the broker has the room. */
const SESSION_EXPIRY_S = 7 * 24 * 3600;
export const RECEIVE_MAXIMUM = 64;
/** From the first packet of the dial to the SUBACK; MQTT.js alone would wait for ever for an incomplete CONNACK. */
export const CONNECT_TIMEOUT_MS = 20_000;

/** For a client that is a bare transport with a session that outlives it. */
export function clientOptions(options: SubscriptionOptions): IClientOptions {
  const { clientId, protocolVersion = 5, username, password, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options;
  return {
    clientId,
    protocolVersion,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    clean: false,
    keepalive: options.keepaliveS ?? KEEPALIVE_S,
    connectTimeout: connectTimeoutMs,
    manualConnect: true,
    reconnectPeriod: 0,
    resubscribe: false,
    queueQoSZero: false,
    ...(protocolVersion === 5 && {
      properties: {
        sessionExpiryInterval: options.sessionExpiryS ?? SESSION_EXPIRY_S,
        receiveMaximum: options.receiveMaximum ?? RECEIVE_MAXIMUM,
      },
    }),
  };
}
