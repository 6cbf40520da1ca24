import * as z from 'zod';
import { found } from './explain.js';
import { ofKind } from './kinds.js';

const MS_OF = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const BYTES_OF = {
  TiB: 2 ** 40,
  GiB: 2 ** 30,
  MiB: 2 ** 20,
  KiB: 2 ** 10,
  TB: 1e12,
  GB: 1e9,
  MB: 1e6,
  KB: 1e3,
  B: 1,
} as const;

const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;
const SIZE = /^(\d+(?:\.\d+)?)(TiB|GiB|MiB|KiB|TB|GB|MB|KB|B)$/;
const DURATION_EXAMPLES = '250ms, 5s, 1m, 2h or 1d';
const SIZE_EXAMPLES = '512B, 64KiB, 128KB or 2GiB';

/** Longer than any wait or keep time that makes sense in a plant, and far below what a 32-bit field of seconds holds. */
const DURATION_MS_MAX = 3650 * MS_OF.d;
/** 8 PiB: beyond every disk, and still exact as a number. */
const SIZE_BYTES_MAX = 2 ** 53;

/** A duration with its unit, as milliseconds. Plain numbers are refused: 5 what? */
export function duration(min: string, max?: string) {
  return quantity(DURATION, MS_OF, 'a duration', DURATION_EXAMPLES, 'duration', formatDuration, {
    min: amount(DURATION, MS_OF, min),
    max: max === undefined ? DURATION_MS_MAX : amount(DURATION, MS_OF, max),
  });
}

/** A size with its unit, as bytes. KiB is 1024, KB is 1000. */
export function size(min: string, max?: string) {
  return quantity(SIZE, BYTES_OF, 'a size', SIZE_EXAMPLES, 'size', formatSize, {
    min: amount(SIZE, BYTES_OF, min),
    max: max === undefined ? SIZE_BYTES_MAX : amount(SIZE, BYTES_OF, max),
  });
}

/** Milliseconds in the largest unit that holds them exactly: 60000 is `1m`, 1500 is `1500ms`. */
export function formatDuration(ms: number): string {
  return inLargest(ms, Object.entries(MS_OF).reverse());
}

/** Bytes in the largest unit that holds them exactly, powers of 1024 first: 128000 is `125KiB`, 1000 is `1KB`. */
export function formatSize(bytes: number): string {
  return inLargest(bytes, Object.entries(BYTES_OF));
}

function quantity(
  pattern: RegExp,
  factors: Readonly<Record<string, number>>,
  what: string,
  examples: string,
  kind: 'duration' | 'size',
  format: (value: number) => string,
  limits: { readonly min: number; readonly max: number },
) {
  const complaint = (input: unknown) =>
    input === undefined ? undefined : `expected ${what} with its unit, like ${examples}, found ${found(input)}`;
  const text = z.string({ error: ({ input }) => complaint(input) }).regex(pattern, {
    error: ({ input }) => complaint(input),
  });
  return ofKind(
    kind,
    text.transform((value, context) => {
      const result = amount(pattern, factors, value);
      if (Number.isInteger(result) && result >= limits.min && result <= limits.max) return result;
      const message = Number.isInteger(result)
        ? `must be from ${format(limits.min)} to ${format(limits.max)}, found ${value}`
        : `is no whole number of ${kind === 'duration' ? 'milliseconds' : 'bytes'}: ${value}`;
      context.addIssue({ code: 'custom', message });
      return z.NEVER;
    }),
  );
}

function amount(pattern: RegExp, factors: Readonly<Record<string, number>>, text: string): number {
  const [, digits, unit] = pattern.exec(text) ?? [];
  // 1.1 GiB and its like end in binary dust; a millionth of a unit is nobody's intention.
  return Number((Number(digits) * (factors[unit ?? ''] ?? Number.NaN)).toFixed(6));
}

function inLargest(value: number, units: readonly (readonly [string, number])[]): string {
  const [unit, factor] = units.find(([, size]) => value >= size && value % size === 0) ?? (units.at(-1) as [string, 1]);
  return `${value / factor}${unit}`;
}
