import * as z from 'zod';
import { isUnit, UNIT_CHARS_MAX } from '../model/unit.js';

/** The key `unit` of a tag, whatever protocol it is read with. */
export const tagUnit = z
  .string()
  .refine(isUnit, {
    error: `expected 1 to ${UNIT_CHARS_MAX} characters like "°C", without line breaks or spaces around them`,
  })
  .optional()
  .describe('Unit of measure of the value, like "°C", kept with the readings. It converts nothing.');
