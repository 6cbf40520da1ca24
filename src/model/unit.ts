/** Longest text of a unit of measure, in characters; UCUM and IEC names stay far below it. */
export const UNIT_CHARS_MAX = 64;

/** No control characters (PostgreSQL's `text` has no NUL), no halves of a surrogate pair, no white space around it. */
const UNIT = new RegExp(`^(?!\\s)[^\\p{Cc}\\p{Cs}]{1,${UNIT_CHARS_MAX}}(?<!\\s)$`, 'u');

/** Whether it can be the unit of measure of a metric, like "°C". */
export function isUnit(value: unknown): value is string {
  return typeof value === 'string' && UNIT.test(value);
}

/** Units of measure by asset, then by metric. */
export type Units = ReadonlyMap<string, ReadonlyMap<string, string>>;
