import * as z from 'zod';
import { ADDRESSINGS, BITS_PER_READ_MAX, REGISTERS_PER_READ_MAX, SHORT_ORDERS } from '../model/modbus.js';
import { count } from './connection-schema.js';
import { invalidValues, tag } from './modbus-tag-schema.js';
import { topicLevel } from './topics.js';
import { duration } from './units.js';

const group = z
  .strictObject({
    every: duration('10ms', '1d').describe('Time between two reads of the group.'),
    report: z
      .enum(['always', 'change'])
      .prefault('always')
      .describe('always: every value read. change: a value only when it or its quality has changed.'),
    heartbeat: duration('100ms', '1d')
      .prefault('1m')
      .describe('With report: change, the longest time without a reading of an unchanged value.'),
    message: topicLevel
      .optional()
      .describe('Publish all tags of a read as one JSON value under this name. Absent: one reading per tag.'),
    tags: z.array(tag).min(1).describe('What is read.'),
  })
  .superRefine(({ report, tags, message }, context) => {
    for (const [index, { deadband, name }] of tags.entries()) {
      if (deadband !== undefined && report !== 'change')
        context.addIssue({ code: 'custom', path: ['tags', index, 'deadband'], message: 'needs report: change' });
      if (name === message)
        context.addIssue({ code: 'custom', path: ['message'], message: `${message} is the name of a tag` });
    }
  });

const limits = z
  .strictObject({
    registers: count(1, REGISTERS_PER_READ_MAX).prefault(REGISTERS_PER_READ_MAX).describe('Registers in one read.'),
    bits: count(1, BITS_PER_READ_MAX).prefault(BITS_PER_READ_MAX).describe('Coils or inputs in one read.'),
    gap: z
      .union([z.literal('auto'), count(0, 124)], { error: 'expected auto or a number of registers from 0 to 124' })
      .prefault('auto')
      .describe('Registers that are read for nothing between two tags; auto follows from what a request costs.'),
  })
  .prefault({})
  .describe('What the device allows in one request.');

const quirks = z
  .strictObject({
    oneRequestPerTag: z.boolean().prefault(false).describe('Read every tag by itself.'),
    coilsFromZero: z.boolean().prefault(false).describe('Begin every read of coils and inputs at address 0.'),
    writeMultiple: z.boolean().prefault(false).describe('Write single values by functions 15 and 16 too.'),
    readWrite: z.boolean().prefault(false).describe('Write registers by function 23, which reads them back at once.'),
  })
  .prefault({})
  .describe('What the device needs otherwise.');

export const device = z.strictObject({
  asset: topicLevel.describe('Name of the asset.'),
  unit: count(0, 255).prefault(1).describe('Modbus unit id, a number. The unit of measure is a key of the tag.'),
  timeout: duration('10ms', '10m').optional().describe("Time for one answer, if it is not the reader's."),
  retries: count(0, 10).optional().describe("Further attempts of a read, if they are not the reader's."),
  minGap: duration('0ms', '1m').optional().describe("Pause between two requests to this device, besides the reader's."),
  labels: z
    .record(z.string().regex(/^[A-Za-z][A-Za-z0-9_]*$/, { error: 'expected letters and digits' }), topicLevel)
    .prefault({})
    .describe('Further placeholders of the topic, {area: packaging, line: l1}.'),
  order: z
    .enum(SHORT_ORDERS)
    .prefault('ABCD')
    .describe(
      "Byte order of the device's values: ABCD is big-endian, CDAB swaps the words, BADC the bytes, DCBA both.",
    ),
  addressing: z
    .enum(ADDRESSINGS)
    .prefault('pdu0')
    .describe('pdu0: 0-based addresses only. plc1: the 1-based 40108 and 400108 of PLC manuals too.'),
  invalid: invalidValues.optional(),
  limits,
  quirks,
  groups: z.array(group).min(1).describe('Tags that are read at the same pace.'),
});

export type DeviceConfig = z.output<typeof device>;
