export type Qos = 0 | 1 | 2;

/** One MQTT application message, as it came in. */
export interface Message {
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly qos: Qos;
  readonly retain: boolean;
  /** The MQTT 5 properties that travel with a message, byte for byte (no alias, expiry or subscription identifiers). */
  readonly props: Uint8Array | null;
}
