import type { Addressing, ByteOrder, CharLayout, TagType } from '../../model/modbus.js';
import type { LinearRange } from './conversion.js';
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
  /** The connection is closed after every poll, for devices that serve one master at a time. */
  readonly closeAfterPoll?: boolean;
  /** How long a range that a device refused is left alone before it is tried again; ten minutes without it. */
  readonly holeRetestMs?: number;
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
  /** Where they differ from those of the link. */
  readonly timeoutMs?: number;
  readonly retries?: number;
  /** Silence between its answer and the next request to it, besides that of the link. */
  readonly minGapMs?: number;
  readonly order: ByteOrder;
  readonly addressing: Addressing;
  /** What stands for "no value" in every tag of the device that does not say so itself. */
  readonly invalid?: InvalidValues;
  readonly limits?: DeviceLimits;
  readonly groups: readonly ModbusGroupOptions[];
}

/** What a device allows in one request, and how it wants to be asked. */
export interface DeviceLimits {
  readonly registersMax?: number;
  readonly bitsMax?: number;
  /** Registers read for nothing between two tags; `auto` follows from what a request costs on the link. */
  readonly gap?: number | 'auto';
  /** Every tag in a request of its own, for devices that answer only to the exact range. */
  readonly oneRequestPerTag?: boolean;
  /** Reads of coils and inputs begin at 0, for devices that return the wrong ones otherwise. */
  readonly coilsFromZero?: boolean;
  /** Single coils and registers are written by functions 15 and 16 too. */
  readonly writeMultiple?: boolean;
  /** Registers are written by function 23, which reads them back in the same transaction. */
  readonly readWrite?: boolean;
}

export interface ModbusGroupOptions {
  readonly everyMs: number;
  /** Set: all tags of a cycle go out together under this name. */
  readonly message?: string;
  readonly tags: readonly ModbusTagOptions[];
}

/** `sunspec`: the values of that standard for each integer type. Otherwise raw numbers, signed or as the bits of the register. */
export type InvalidValues = 'sunspec' | readonly (number | bigint)[];

export interface ModbusTagOptions {
  readonly name: string;
  /** `hr:107`, `hr:300.3`, `co:3`; see `parseAddress`. */
  readonly at: string;
  readonly type: TagType;
  readonly order?: ByteOrder;
  readonly scale?: number;
  readonly offset?: number;
  /** Instead of scale and offset. */
  readonly range?: LinearRange;
  /** Raw number to the name of what it means. */
  readonly names?: Readonly<Record<string, string>>;
  readonly invalid?: InvalidValues;
  /** Bytes of a `string`. */
  readonly length?: number;
  readonly chars?: CharLayout;
  /** Absent: the tag is never written. The limits are those of its readings. */
  readonly write?: WriteLimits;
}

export interface WriteLimits {
  readonly min?: number;
  readonly max?: number;
}
