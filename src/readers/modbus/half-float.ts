const FRACTION_BITS = 10;
const BIAS = 15;
const EXPONENT_MAX = 31;
/** The largest finite half: 2¹⁵ · (2 − 2⁻¹⁰). */
export const HALF_MAX = 65_504;

/** [IEEE 754-2008, binary16] */
export function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> FRACTION_BITS) & EXPONENT_MAX;
  const fraction = bits & 0x3ff;
  if (exponent === EXPONENT_MAX) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  if (exponent === 0) return sign * fraction * 2 ** (1 - BIAS - FRACTION_BITS);
  return sign * (1 + fraction / 2 ** FRACTION_BITS) * 2 ** (exponent - BIAS);
}

/** The nearest half, ties to even. The magnitude is at most `HALF_MAX`. */
export function numberToHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  const exponent = magnitude < 2 ** (1 - BIAS) ? 1 - BIAS : Math.floor(Math.log2(magnitude));
  const steps = roundHalfEven(magnitude * 2 ** (FRACTION_BITS - exponent));
  // Steps from 2¹⁰ on carry the implicit bit into the exponent field, as does a rounding up to the next power of two.
  const biased = exponent === 1 - BIAS ? 0 : exponent + BIAS - 1;
  return sign | ((biased << FRACTION_BITS) + steps);
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
