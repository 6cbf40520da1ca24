import type { Addressing } from './address.js';
import type { ByteOrder, TagType } from './decode.js';
import type { Endpoint } from './endpoint.js';

export interface ModbusOptions {
  readonly endpoint: Endpoint;
  readonly connectTimeoutMs: number;
  /** For each try of a request, from the moment it is sent. */
  readonly timeoutMs: number;
  /** Further tries of a request that was not answered. */
  readonly retries: number;
  /** Silence on the line between an answer and the next request, for devices that need it. */
  readonly minGapMs: number;
  /** Silence after a connection is made, for converters that drop what comes at once. */
  readonly pauseAfterConnectMs?: number;
  /** The device answers under another unit id than it was asked for (TCP only). */
  readonly acceptAnyUnit?: boolean;
  /** The serial adapter hears what it sends (RTU only). */
  readonly localEcho?: boolean;
  /** Between two tries to connect, and between two tries to reach a device that does not answer. */
  readonly backoff: { readonly minMs: number; readonly maxMs: number };
  /** The units behind this endpoint; they share its one connection. */
  readonly devices: readonly ModbusDeviceOptions[];
}

export interface ModbusDeviceOptions {
  readonly asset: string;
  readonly unit: number;
  readonly order: ByteOrder;
  readonly addressing: Addressing;
  readonly groups: readonly ModbusGroupOptions[];
}

export interface ModbusGroupOptions {
  readonly everyMs: number;
  readonly tags: readonly ModbusTagOptions[];
}

export interface ModbusTagOptions {
  readonly name: string;
  /** `hr:107`, `hr:300.3`, `co:3`; see `parseAddress`. */
  readonly at: string;
  readonly type: TagType;
  readonly order?: ByteOrder;
  readonly scale?: number;
  readonly offset?: number;
  /** Bytes of a `string`. */
  readonly length?: number;
}
