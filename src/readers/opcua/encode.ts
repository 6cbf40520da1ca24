import { TYPE } from './values.js';

/** Least and greatest value of the integers of at most 32 bits. */
const RANGES: Readonly<Record<number, readonly [number, number]>> = {
  [TYPE.sbyte]: [-128, 127],
  [TYPE.byte]: [0, 255],
  [TYPE.int16]: [-32_768, 32_767],
  [TYPE.uint16]: [0, 65_535],
  [TYPE.int32]: [-2_147_483_648, 2_147_483_647],
  [TYPE.uint32]: [0, 4_294_967_295],
};
const FLOAT_MAX = 3.4028234663852886e38;

/** A command's value as the server wants it for a type, or why it cannot be that, as a sentence's end. */
export function encode(dataType: number, value: unknown): { readonly value: unknown } | { readonly fault: string } {
  if (dataType === TYPE.boolean) return typeof value === 'boolean' ? { value } : { fault: 'expected true or false' };
  if (dataType === TYPE.string) return typeof value === 'string' ? { value } : { fault: 'expected a text' };
  if (dataType === TYPE.dateTime) return dateTime(value);
  if (dataType === TYPE.int64 || dataType === TYPE.uint64) return wide(dataType, value);
  if (dataType === TYPE.float || dataType === TYPE.double) {
    const number = typeof value === 'bigint' ? Number(value) : value;
    if (typeof number !== 'number' || !Number.isFinite(number)) return { fault: 'expected a number' };
    return dataType === TYPE.float && Math.abs(number) > FLOAT_MAX
      ? { fault: 'is beyond what a Float can hold' }
      : { value: number };
  }
  const range = RANGES[dataType];
  if (!range) return { fault: 'is of a type that cannot be written' };
  const [min, max] = range;
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
    ? { value }
    : { fault: `expected a whole number from ${min} to ${max}` };
}

function wide(dataType: number, value: unknown): ReturnType<typeof encode> {
  if (typeof value !== 'bigint' && !Number.isSafeInteger(value)) return { fault: 'expected a whole number' };
  const big = BigInt(value as number | bigint);
  const signed = dataType === TYPE.int64;
  if (big !== (signed ? BigInt.asIntN(64, big) : BigInt.asUintN(64, big)))
    return { fault: `is beyond what ${signed ? 'an Int64' : 'a UInt64'} can hold` };
  const bits = BigInt.asUintN(64, big);
  return { value: [Number(bits >> 32n), Number(bits & 0xffff_ffffn)] };
}

function dateTime(value: unknown): ReturnType<typeof encode> {
  const date = typeof value === 'string' ? new Date(value) : undefined;
  return date && Number.isFinite(date.getTime())
    ? { value: date }
    : { fault: 'expected a time like 2026-01-31T08:00:00Z' };
}
