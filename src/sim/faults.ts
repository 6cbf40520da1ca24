import { z } from 'zod';
import { HoldfastError } from '../lib/errors.js';

/** The longest wait a fault may add. Longer than any timeout under test; far below the range of a timer. */
const DELAY_MS_MAX = 3_600_000;

export const delayMs = z.int().min(0).max(DELAY_MS_MAX);

/** A number of times, or until it is switched off. */
export const times = z.union([z.int().min(0), z.literal('all')]);
export type Times = z.infer<typeof times>;

/** Uses up one of `times`: what is left, or undefined when there was none. */
export function spend(left: Times): Times | undefined {
  if (left === 'all') return 'all';
  return left > 0 ? left - 1 : undefined;
}

/**
 * Writes a patch of fault switches over the current ones; a wrong one changes nothing.
 * @throws HoldfastError `usage.invalid` naming every wrong or unknown key
 */
export function applyFaults<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape, z.core.$strict>,
  faults: z.infer<z.ZodObject<Shape, z.core.$strict>>,
  patch: unknown,
): void {
  const parsed = schema.partial().safeParse(patch);
  if (!parsed.success)
    throw new HoldfastError('usage.invalid', `Wrong fault switches: ${z.prettifyError(parsed.error)}`, {
      values: { patch },
    });
  Object.assign(faults, parsed.data);
}
