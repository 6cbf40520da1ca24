import type { TagType } from '../../model/modbus.js';
import { GOOD, type Quality, type ReadingType } from '../../model/reading.js';
import { BAD_SENSOR_FAILURE, UNCERTAIN_RANGE, UNCERTAIN_VALUE } from '../quality.js';
import type { Raw, ValueFormat } from './decode.js';

export interface LinearRange {
  /** What the device has at both ends, and what that means. */
  readonly raw: readonly [number, number];
  readonly eng: readonly [number, number];
  /** Whether values beyond an end are given as that end. Either way their quality is "uncertain: range". */
  readonly clamp: boolean;
}

/** From what is in the registers to what it means. */
export interface ConversionOptions {
  /** value = raw · scale + offset; both are 1 and 0 where there is a range. */
  readonly scale: number;
  readonly offset: number;
  readonly range: LinearRange | null;
  /** Raw number to its name. */
  readonly names: ReadonlyMap<number, string> | null;
  /** Raw values that stand for "none", as the device's manual writes them: signed, or as the bits of the register. */
  readonly invalid: readonly (number | bigint)[];
}

export interface Converted {
  /** Null with a quality that is not good. */
  readonly value: number | bigint | boolean | string | null;
  readonly quality: Quality;
}

export type Convert = (raw: Raw) => Converted;

/** The type under which a value travels; a scaled value is a float whatever it is in the device. */
export function readingTypeOf(type: TagType, { scale, offset, range, names }: ConversionOptions): ReadingType {
  if (type === 'string' || names) return 's';
  if (type === 'bool') return 'b';
  return type.startsWith('f') || range || scale !== 1 || offset !== 0 ? 'f' : 'i';
}

/** Every value means itself. */
export const PLAIN: ConversionOptions = { scale: 1, offset: 0, range: null, names: null, invalid: [] };

export function isPlain({ scale, offset, range, names, invalid }: ConversionOptions): boolean {
  return scale === 1 && offset === 0 && !range && !names && invalid.length === 0;
}

/** 64-bit integers stay exact; scaled, they are as exact as a float is. */
export function conversionOf({ type }: Pick<ValueFormat, 'type'>, options: ConversionOptions): Convert {
  const { scale, offset, range, names, invalid } = options;
  const isInvalid = invalidTest(type, invalid);
  const meaning = names
    ? named(names)
    : range
      ? ranged(range)
      : scale !== 1 || offset !== 0
        ? linear(scale, offset)
        : good;
  return (raw) => (raw === null || isInvalid?.(raw) ? NONE : meaning(raw));
}

/**
 * The raw value that means `value`: the inverse of a conversion. Throws an error that says why, when there is none; a scaled
 * value is rounded to the nearest step of the device.
 */
export function toRaw(
  { type }: Pick<ValueFormat, 'type'>,
  options: ConversionOptions,
  value: unknown,
): Exclude<Raw, null> {
  const { scale, offset, range, names } = options;
  if (names) {
    const raw = [...names].find(([, name]) => name === value)?.[0];
    if (raw === undefined) throw new Error(`must be one of ${[...names.values()].join(', ')}`);
    return type === 'bool' ? raw === 1 : raw;
  }
  if (type === 'bool' || type === 'string' || (!range && scale === 1 && offset === 0))
    return value as Exclude<Raw, null>;
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Error('must be a number');
  const raw = range
    ? range.raw[0] + ((value - range.eng[0]) * (range.raw[1] - range.raw[0])) / (range.eng[1] - range.eng[0])
    : (value - offset) / scale;
  const [low, high] = range ? [Math.min(...range.raw), Math.max(...range.raw)] : [-Infinity, Infinity];
  if (raw < low || raw > high) throw new Error(`must be from ${range?.eng[0]} to ${range?.eng[1]}`);
  return type.startsWith('f') ? raw : Math.round(raw);
}

const NONE: Converted = { value: null, quality: BAD_SENSOR_FAILURE };

const good = (raw: Exclude<Raw, null>): Converted => ({ value: raw, quality: GOOD });

function linear(scale: number, offset: number): (raw: Exclude<Raw, null>) => Converted {
  // 3 · 0.1 is 0.30000000000000004 and 3 / 10 is 0.3: dividing by a whole number rounds once, as a person would.
  const divisor = Math.round(1 / scale);
  const divides = divisor > 1 && 1 / divisor === scale;
  return (raw) => finite((divides ? Number(raw) / divisor : Number(raw) * scale) + offset, GOOD);
}

function ranged({
  raw: [rawFrom, rawTo],
  eng: [from, to],
  clamp,
}: LinearRange): (raw: Exclude<Raw, null>) => Converted {
  const [low, high] = [Math.min(rawFrom, rawTo), Math.max(rawFrom, rawTo)];
  return (raw) => {
    const number = Number(raw);
    const inside = number >= low && number <= high;
    const used = clamp ? Math.min(high, Math.max(low, number)) : number;
    return finite(from + ((used - rawFrom) * (to - from)) / (rawTo - rawFrom), inside ? GOOD : UNCERTAIN_RANGE);
  };
}

/** A number without a name is given as it is: a firmware update adds states before anybody names them here. */
function named(names: ReadonlyMap<number, string>): (raw: Exclude<Raw, null>) => Converted {
  return (raw) => {
    const name = names.get(Number(raw));
    return name === undefined ? { value: String(raw), quality: UNCERTAIN_VALUE } : { value: name, quality: GOOD };
  };
}

/** JSON has no form for what is beyond a float, so it would turn into a silent null on the way. */
function finite(value: number, quality: Quality): Converted {
  return Number.isFinite(value) ? { value, quality } : NONE;
}

function invalidTest(type: TagType, invalid: readonly (number | bigint)[]): ((raw: Raw) => boolean) | undefined {
  if (invalid.length === 0) return undefined;
  const bits = Number(/^i(\d+)$/.exec(type)?.[1] ?? 0);
  if (type.endsWith('64') && !type.startsWith('f')) {
    const exact = new Set(invalid.map((value) => (bits > 0 ? BigInt.asIntN(bits, BigInt(value)) : BigInt(value))));
    return (raw) => exact.has(raw as bigint);
  }
  const numbers = new Set(
    invalid.map((value) => (bits > 0 ? Number(BigInt.asIntN(bits, BigInt(value))) : Number(value))),
  );
  return (raw) => numbers.has(raw as number);
}

/** What SunSpec devices, and many inverters besides, send for "not implemented" [SunSpec Information Model 1.1, 4.2]. */
export const SUNSPEC_INVALID: Partial<Record<TagType, readonly (number | bigint)[]>> = {
  i16: [0x8000],
  u16: [0xffff],
  i32: [0x8000_0000],
  u32: [0xffff_ffff],
  i64: [2n ** 63n],
  u64: [2n ** 64n - 1n],
};
