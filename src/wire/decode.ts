import { gunzipSync } from 'node:zlib';
import { messageOf } from '../lib/errors.js';
import { type Batch, DECODE_LIMITS, type DecodeLimits, malformed } from './batch.js';
import { decodeColumns } from './columns-decode.js';
import { JsonProblem, JsonScanner } from './json-scan.js';
import { unpack } from './msgpack.js';
import { decodeRows } from './rows.js';

const GZIP = 0x1f;

/**
 * Reads a batch in any of its forms, told apart by the first byte: gzip, msgpack map (columns), msgpack array or JSON
 * (rows). Throws `wire.malformed` or `wire.version`; never returns half a batch. Bytes in it may share memory with `bytes`.
 */
export function decodeBatch(bytes: Uint8Array, limits: DecodeLimits = DECODE_LIMITS): Batch {
  const plain = bytes[0] === GZIP ? inflate(bytes, limits.inflatedBytesMax) : bytes;
  if (plain.length > limits.inflatedBytesMax) throw malformed(`larger than ${limits.inflatedBytesMax} bytes`);
  const first = plain[0];
  if (first === undefined) throw malformed('it is empty');
  if ((first >= 0x80 && first <= 0x8f) || first === 0xde || first === 0xdf)
    return decodeColumns(unpackStrictly(plain), limits);
  if ((first >= 0x90 && first <= 0x9f) || first === 0xdc || first === 0xdd)
    return decodeRows(unpackStrictly(plain), 'msgpack', limits);
  if (first === 0x5b) return decodeRows(parseStrictly(plain), 'json', limits);
  if (first === 0x7b) return decodeRows([parseStrictly(plain)], 'json', limits);
  throw malformed('it is neither gzip, msgpack nor JSON', { firstByte: first });
}

function inflate(bytes: Uint8Array, maxOutputLength: number): Uint8Array {
  try {
    return gunzipSync(bytes, { maxOutputLength });
  } catch (cause) {
    throw malformed(`cannot be inflated: ${messageOf(cause)}`, { maxOutputLength }, cause);
  }
}

function unpackStrictly(bytes: Uint8Array): unknown {
  try {
    return unpack(bytes);
  } catch (cause) {
    throw malformed(`not valid msgpack: ${messageOf(cause)}`, {}, cause);
  }
}

function parseStrictly(bytes: Uint8Array): unknown {
  const scanner = new JsonScanner();
  scanner.start(bytes);
  try {
    const value = scanner.value();
    scanner.finish();
    return value;
  } catch (error) {
    throw error instanceof JsonProblem ? malformed(error.problem) : error;
  }
}
