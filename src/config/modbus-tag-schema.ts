import * as z from 'zod';
import {
  ADDRESSES,
  bitsFault,
  CHAR_LAYOUTS,
  isBitTable,
  LONG_ORDERS,
  REGISTERS_PER_READ_MAX,
  registersOf,
  SHORT_ORDERS,
  TAG_TYPES,
} from '../model/modbus.js';
import { parseModbusAddress } from '../model/modbus-address.js';
import { count } from './connection-schema.js';
import { tagUnit } from './tag-unit.js';
import { topicLevel } from './topics.js';

/** The metric under which gaps are published; a tag of that name would be taken for one. */
const GAP_METRIC = 'gap';

const rawNumber = z.union([
  z.number().refine((value) => !Number.isInteger(value) || Number.isSafeInteger(value), {
    error: 'is too large to be exact; write it in quotes, like "0xFFFFFFFFFFFFFFFF"',
  }),
  z.string().regex(/^-?(0x[0-9a-f]{1,16}|\d{1,20})$/i, { error: 'expected a whole number, like "0x8000"' }),
]);

export const invalidValues = z
  .union([z.literal('sunspec'), z.array(rawNumber)], {
    error: 'expected sunspec or a list of raw values, like ["0x8000"]',
  })
  .describe('Raw values that stand for "none": sunspec, or a list like ["0x8000"].');

const ends = z
  .tuple([z.number(), z.number()])
  .refine(([from, to]) => from !== to, { error: 'must have two different ends' });

const range = z.strictObject({
  raw: ends.describe('Both ends in the device.'),
  eng: ends.describe('What they mean.'),
  clamp: z
    .boolean()
    .prefault(false)
    .describe('Give a value beyond an end as that end. Its quality is uncertain either way.'),
});

const write = z.strictObject({
  min: z.number().optional().describe('Least value that may be written.'),
  max: z.number().optional().describe('Greatest value that may be written.'),
});

export const tag = z
  .strictObject({
    name: topicLevel
      .refine((name) => name !== GAP_METRIC, { error: `${GAP_METRIC} is reserved for gap records` })
      .describe('Name of the metric.'),
    at: z
      .union([z.string(), z.int()], {
        error: ({ input }) =>
          input === undefined ? undefined : 'expected an address like "hr:107" or, in quotes, "40108"',
      })
      .transform(String)
      .describe(
        'Address: co:, di:, hr: or ir: and the 0-based number in the PDU, decimal or 0x1F (also %M, %I, %MW, %IW), with .BIT, ' +
          '.LOW-HIGH, .hi or .lo for a part of it; with addressing plc1 also 40108 or 400108.',
      ),
    type: z.enum(TAG_TYPES).describe('Type of the value in the device.'),
    scale: z
      .number()
      .refine((factor) => factor !== 0, { error: 'must not be 0' })
      .optional()
      .describe('Factor: value = raw · scale + offset. Absent: integers stay exact.'),
    offset: z.number().optional().describe('Added after scaling.'),
    unit: tagUnit,
    range: range.optional().describe('Instead of scale and offset: which raw values mean which.'),
    enum: z
      .record(z.string().regex(/^-?\d+$/, { error: 'expected a whole number' }), z.string().min(1))
      .optional()
      .describe('Names of the raw values of an integer or a bool, {0: off, 1: auto}.'),
    invalid: invalidValues.optional(),
    order: z
      .enum([...SHORT_ORDERS, ...LONG_ORDERS])
      .optional()
      .describe("Byte order, if it is not the device's."),
    length: count(1, REGISTERS_PER_READ_MAX * 2)
      .optional()
      .describe('Bytes of a string.'),
    chars: z
      .enum(CHAR_LAYOUTS)
      .optional()
      .describe('Characters of a string: in both bytes of each register, or only in its high or low one.'),
    deadband: z
      .union([z.number().positive(), z.string().regex(/^\d+(\.\d+)?%$/)], {
        error: 'expected a number or, of the range, a percentage like "1%"',
      })
      .optional()
      .describe('With report: change, the least change that is reported; "1%" of the range.'),
    write: write.optional().describe('Allows commands to write this tag. Absent: it is never written.'),
  })
  .superRefine((value, context) => {
    const { type, chars = 'both' } = value;
    const at = parseModbusAddress(value.at);
    const complain = (path: keyof typeof value, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });
    const number = type !== 'bool' && type !== 'string';
    const wide = type.endsWith('64');

    if (typeof at === 'string') complain('at', at);
    else {
      const fault = isBitTable(at.table) ? undefined : bitsFault(type, at.bits, value.at.replace(/\..*/, ''));
      if (isBitTable(at.table) && type !== 'bool') complain('type', `expected bool at ${value.at}, found ${type}`);
      else if (fault) complain('at', fault);
      const registers = registersOf({ type, length: value.length ?? 1, chars });
      const end = at.address + registers;
      if (end > ADDRESSES) complain('at', `ends at address ${end - 1}, behind the last one, ${ADDRESSES - 1}`);
      if (registers > REGISTERS_PER_READ_MAX)
        complain('length', `a text of one character in each register has at most ${REGISTERS_PER_READ_MAX}`);
      if (value.write && (at.table === 'di' || at.table === 'ir'))
        complain('write', 'an input cannot be written; only coils and holding registers can');
    }
    if (type === 'string' && value.length === undefined) complain('length', 'is required for a string');
    if (type !== 'string' && value.length !== undefined) complain('length', 'only a string has a length');
    if (type !== 'string' && value.chars !== undefined) complain('chars', 'only a string has characters');
    if (value.order && value.order.length === 8 && !wide)
      complain('order', `is for 64-bit values; for a ${type} write one of ${SHORT_ORDERS.join(', ')}`);
    for (const key of ['scale', 'offset', 'range', 'invalid', 'deadband'] as const)
      if (!number && value[key] !== undefined) complain(key, `has no meaning for a ${type}`);
    if (value.range && (value.scale !== undefined || value.offset !== undefined))
      complain('range', 'takes the place of scale and offset; write one of them only');
    if (typeof value.deadband === 'string' && !value.range) complain('deadband', 'a percentage needs a range');
    if (value.enum && (type === 'string' || type.startsWith('f') || wide))
      complain('enum', `has no meaning for a ${type}`);
    else if (value.enum && (value.scale !== undefined || value.offset !== undefined || value.range))
      complain('enum', 'a value with names is not scaled');
    if (value.write && value.write.min !== undefined && !number) complain('write', `a ${type} has no least value`);
    if (value.write && value.write.max !== undefined && !number) complain('write', `a ${type} has no greatest value`);
  });

export type TagConfig = z.output<typeof tag>;
