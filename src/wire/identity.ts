import { gunzipSync } from 'node:zlib';
import type { Epoch, GatewayId } from '../model/ids.js';
import type { Source } from '../model/row.js';
import { DECODE_LIMITS } from './batch.js';
import { unpack } from './msgpack.js';

/** Whose batch it is, as far as its envelope says. */
export interface BatchIdentity {
  readonly source: Source;
  readonly first: number;
  readonly last: number;
  readonly ack: boolean;
}

const GZIP = 0x1f;

/**
 * What can be said of a batch that cannot be decoded, of another version above all: its gateway is to be told that it was
 * kept aside. Undefined where not even that can be read; never throws.
 */
export function identityOf(bytes: Uint8Array): BatchIdentity | undefined {
  try {
    const plain = bytes[0] === GZIP ? gunzipSync(bytes, { maxOutputLength: DECODE_LIMITS.inflatedBytesMax }) : bytes;
    const value = unpack(plain);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    const { gw, ep, f, l, ack } = value as Record<string, unknown>;
    if (typeof gw !== 'string' || gw === '' || typeof ep !== 'string' || ep === '') return undefined;
    if (!isSeq(f) || !isSeq(l) || l < f) return undefined;
    return { source: { gateway: gw as GatewayId, epoch: ep as Epoch }, first: f, last: l, ack: ack === true };
  } catch {
    return undefined;
  }
}

function isSeq(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}
