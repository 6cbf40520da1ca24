import type { DataValue, Variant } from 'node-opcua-client';
import { BAD, type Quality, type ReadingType } from '../../model/reading.js';
import type { Sample } from '../driver.js';
import { BAD_CONFIG, BAD_SENSOR_FAILURE } from '../quality.js';
import { isBad, nameOf, qualityOf } from './status.js';

/** Ids of the built-in types [OPC 10000-6, 5.1.2]. */
export const TYPE = {
  null: 0,
  boolean: 1,
  sbyte: 2,
  byte: 3,
  int16: 4,
  uint16: 5,
  int32: 6,
  uint32: 7,
  int64: 8,
  uint64: 9,
  float: 10,
  double: 11,
  string: 12,
  dateTime: 13,
  guid: 14,
  byteString: 15,
  xmlElement: 16,
  nodeId: 17,
  expandedNodeId: 18,
  statusCode: 19,
  qualifiedName: 20,
  localizedText: 21,
} as const;

/** Arrays and matrices have another. */
const SCALAR = 0;

export interface Converted extends Omit<Sample, 'tag'> {
  /** Why there is no good value: a status code's name or `unsupported-type`. */
  readonly cause?: string;
}

type Plain = Pick<Converted, 'type' | 'value'>;

/**
 * A value of the server as a reading has it. Every scalar of a built-in type is exact: 64-bit integers are bigints, a
 * DateTime is ISO 8601 in UTC, bytes are base64, and what is a name or an id is its text. An array or a structure is no
 * reading of one metric: it gives a bad one with the cause `unsupported-type`.
 */
export function convert({ statusCode, value: variant }: DataValue): Converted {
  const quality = qualityOf(statusCode);
  const status = nameOf(statusCode);
  if (isBad(statusCode)) return none(quality, status, variant);
  if (!variant || variant.dataType === TYPE.null || variant.value === null || variant.value === undefined)
    return none(BAD, 'no-value', variant);
  const plain = (variant.arrayType as number) === SCALAR ? plainOf(variant) : undefined;
  if (!plain) return none(BAD_CONFIG, 'unsupported-type', variant);
  if (plain.type === 'f' && !Number.isFinite(plain.value)) return none(BAD_SENSOR_FAILURE, 'not-a-number', variant);
  return { ...plain, quality };
}

function none(quality: Quality, cause: string, variant: Variant | null | undefined): Converted {
  return { type: typeOf(variant?.dataType ?? TYPE.null), value: null, quality, cause };
}

function plainOf({ dataType, value }: Variant): Plain | undefined {
  const type = typeOf(dataType);
  switch (dataType as number) {
    case TYPE.int64:
      return { type, value: BigInt.asIntN(64, wide(value)) };
    case TYPE.uint64:
      return { type, value: wide(value) };
    case TYPE.dateTime:
      return { type, value: (value as Date).toISOString() };
    case TYPE.byteString:
      return { type, value: Buffer.from(value as Uint8Array).toString('base64') };
    case TYPE.localizedText:
      return { type, value: String((value as { text?: unknown }).text ?? '') };
    case TYPE.statusCode:
      return { type, value: String((value as { name: unknown }).name) };
    default:
      if (dataType > TYPE.localizedText) return undefined;
      return type === 's' ? { type, value: String(value) } : { type, value: value as number | boolean };
  }
}

function typeOf(dataType: number): ReadingType {
  if (dataType === TYPE.boolean) return 'b';
  if (dataType >= TYPE.sbyte && dataType <= TYPE.uint64) return 'i';
  return dataType >= TYPE.string && dataType <= TYPE.localizedText ? 's' : 'f';
}

/** The stack has 64-bit integers as two halves, the high one first. */
function wide(value: unknown): bigint {
  const [high, low] = value as [number, number];
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
}
