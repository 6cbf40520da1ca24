import * as z from 'zod';
import { urlFault } from './address.js';
import { backoff, count } from './connection-schema.js';
import { ADDRESSES, parseAt, registersOf } from './modbus-at.js';
import { topicLevel, topicTemplate } from './topics.js';
import { duration } from './units.js';

/** The metric under which gaps are published; a tag of that name would be taken for one. */
const GAP_METRIC = 'gap';

/** A tag is read in one request, and a request holds 125 registers (Modbus application protocol 6.3). */
const STRING_BYTES_MAX = 250;

/** What every serial device must offer (Modbus over serial line 2.4.2). */
const SERIAL = { baudRate: 19_200, parity: 'even', dataBits: 8, stopBits: 1 } as const;

const order = z.enum(['ABCD', 'BADC', 'CDAB', 'DCBA']);

const tag = z
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
        'Address: co:, di:, hr: or ir: and the 0-based number in the PDU, with .BIT for a bit of a register; ' +
          'with addressing plc1 also 40108 or 400108.',
      ),
    type: z
      .enum(['bool', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64', 'f32', 'f64', 'string'])
      .describe('Type of the value in the device.'),
    scale: z
      .number()
      .refine((factor) => factor !== 0, { error: 'must not be 0' })
      .optional()
      .describe('Factor: value = raw · scale + offset. Absent: integers stay exact.'),
    offset: z.number().optional().describe('Added after scaling.'),
    order: order.optional().describe("Byte order, if it is not the device's."),
    length: count(1, STRING_BYTES_MAX).optional().describe('Bytes of a string.'),
  })
  .superRefine((value, context) => {
    const at = parseAt(value.at);
    const complain = (path: keyof typeof value, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });

    if (typeof at === 'string') complain('at', at);
    else {
      const bits = at.bit !== undefined || at.table === 'co' || at.table === 'di';
      if (value.type === 'bool' && !bits) complain('at', `a bool in a register needs its bit, like "${value.at}.0"`);
      if (value.type !== 'bool' && bits) complain('type', `expected bool at ${value.at}, found ${value.type}`);
      const end = at.address + registersOf(value.type, value.length);
      if (end > ADDRESSES) complain('at', `ends at address ${end - 1}, behind the last one, ${ADDRESSES - 1}`);
    }
    if (value.type === 'string' && value.length === undefined) complain('length', 'is required for a string');
    if (value.type !== 'string' && value.length !== undefined) complain('length', 'only a string has a length');
    const number = value.type !== 'bool' && value.type !== 'string';
    if (!number && value.scale !== undefined) complain('scale', `has no meaning for a ${value.type}`);
    if (!number && value.offset !== undefined) complain('offset', `has no meaning for a ${value.type}`);
  });

const group = z.strictObject({
  every: duration('10ms', '1d').describe('Time between two reads of the group.'),
  tags: z.array(tag).min(1).describe('What is read.'),
});

const device = z.strictObject({
  asset: topicLevel.describe('Name of the asset.'),
  unit: count(0, 255).prefault(1).describe('Modbus unit id.'),
  order: order
    .prefault('ABCD')
    .describe(
      "Byte order of the device's values: ABCD is big-endian, CDAB swaps the words, BADC the bytes, DCBA both.",
    ),
  addressing: z
    .enum(['pdu0', 'plc1'])
    .prefault('pdu0')
    .describe('pdu0: 0-based addresses only. plc1: the 1-based 40108 and 400108 of PLC manuals too.'),
  groups: z.array(group).min(1).describe('Tags that are read at the same pace.'),
});

const serial = z.strictObject({
  baudRate: z.int().min(110).max(4_000_000).prefault(SERIAL.baudRate).describe('Bits per second.'),
  parity: z.enum(['none', 'even', 'odd']).prefault(SERIAL.parity).describe('Parity bit.'),
  dataBits: z.literal([7, 8]).prefault(SERIAL.dataBits).describe('Data bits.'),
  stopBits: z.literal([1, 2]).prefault(SERIAL.stopBits).describe('Stop bits.'),
});

const deviceUrl = z.string().superRefine((text, context) => {
  const fault = text.startsWith('rtu:') ? serialFault(text) : urlFault(text, ['tcp', 'rtu+tcp'], {});
  if (fault) context.addIssue({ code: 'custom', message: fault });
});

function serialFault(text: string): string | undefined {
  return /^rtu:\/\/\/[^\0?#]+$/.test(text)
    ? undefined
    : 'expected a serial port like rtu:///dev/ttyUSB0 or rtu:///COM3';
}

const modbusReader = z
  .strictObject({
    type: z.literal('modbus').describe('Protocol.'),
    url: deviceUrl.describe(
      'The PLC or Modbus gateway: tcp://HOST[:502] Modbus TCP, rtu+tcp://HOST:PORT RTU frames over TCP, ' +
        'rtu:///dev/ttyUSB0 a serial port.',
    ),
    serial: serial.optional().describe('The serial line, with rtu:// and, for its baud rate, with rtu+tcp://.'),
    connectTimeout: duration('10ms', '10m').prefault('3s').describe('Time for connecting.'),
    timeout: duration('10ms', '10m').prefault('1s').describe('Time for one answer.'),
    retries: count(0, 10).prefault(1).describe('Further attempts of a read that got no answer.'),
    pauseAfterConnect: duration('0ms', '1m').prefault('0ms').describe('Pause after connecting, for slow converters.'),
    acceptAnyUnit: z
      .boolean()
      .prefault(false)
      .describe('Take answers under any unit id, for devices that always answer under the same one; TCP only.'),
    localEcho: z.boolean().prefault(false).describe('The serial adapter hears itself; RTU only.'),
    minGap: duration('0ms', '1m').prefault('0ms').describe('Pause between two requests, for devices that need one.'),
    backoff: backoff('500ms', '30s').describe('Waits between connection attempts.'),
    topic: topicTemplate(['asset', 'metric'])
      .prefault('plant/{asset}/{metric}')
      .describe('Where readings are published. bridge.topics decides whether they go upstream.'),
    statusTopic: topicTemplate(['asset'], ['gateway'])
      .prefault('holdfast/{gateway}/device/{asset}')
      .describe('Where the state of a device is published, retained.'),
    devices: z.array(device).min(1).describe('Devices behind the link, each with its unit id.'),
  })
  .superRefine((reader, context) => {
    const complain = (path: (string | number)[], message: string) =>
      context.addIssue({ code: 'custom', path, message });
    const rtu = reader.url.startsWith('rtu');
    if (reader.serial && !rtu) complain(['serial'], 'has no effect with tcp://');
    if (reader.acceptAnyUnit && rtu)
      complain(['acceptAnyUnit'], 'cannot be with RTU: the unit id is all that tells answers apart');
    if (reader.localEcho && !rtu) complain(['localEcho'], 'has no effect with tcp://');
    for (const [index, { unit }] of reader.devices.entries())
      if (rtu && (unit === 0 || unit > 247))
        complain(['devices', index, 'unit'], `a unit on a serial line is from 1 to 247, found ${unit}`);
  });

/** One link to the plant's devices. */
export const reader = z.discriminatedUnion('type', [modbusReader]);

export type ReaderConfig = z.output<typeof reader>;
