import * as z from 'zod';
import { urlFault } from './address.js';
import { backoff, count } from './connection-schema.js';
import { device } from './modbus-device-schema.js';
import { identityFaults, opcuaReader as opcuaShape } from './opcua-schema.js';
import { placeholdersOf, topicTemplate } from './topics.js';
import { duration } from './units.js';

/** What every serial device must offer (Modbus over serial line 2.4.2). */
const SERIAL = { baudRate: 19_200, parity: 'even', dataBits: 8, stopBits: 1 } as const;
/** Unit ids that a device on a serial line can have (Modbus over serial line 2.2). */
const SERIAL_UNIT_MAX = 247;

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

const commands = z.strictObject({
  topic: topicTemplate(['asset', 'metric'], ['gateway'])
    .prefault('holdfast/{gateway}/command/{asset}/{metric}')
    .describe('Where commands are published.'),
  resultTopic: topicTemplate(['asset', 'metric'], ['gateway'])
    .prefault('holdfast/{gateway}/result/{asset}/{metric}')
    .describe('Where their outcomes are published.'),
  ttlMax: duration('1s', '10m').prefault('30s').describe('Longest time that a command may ask to be valid.'),
});

/** The placeholders that every reader's topic may have, besides the labels of its devices. */
const READING_FIELDS = ['asset', 'metric', 'gateway'];

/** What every reader has, whatever it speaks. */
const common = {
  topic: topicTemplate(['asset', 'metric'], 'any')
    .prefault('plant/{asset}/{metric}')
    .describe('Where readings are published, with {gateway} and labels as further placeholders.'),
  statusTopic: topicTemplate(['asset'], ['gateway'])
    .prefault('holdfast/{gateway}/device/{asset}')
    .describe('Where the state of a device is published, retained.'),
  commands: commands.optional().describe('Write-back. Absent: nothing is ever written to a device.'),
};

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
    closeAfterPoll: z
      .boolean()
      .prefault(false)
      .describe('Close the connection after every poll, for devices that serve one master at a time.'),
    localEcho: z.boolean().prefault(false).describe('The serial adapter hears itself; RTU only.'),
    minGap: duration('0ms', '1m').prefault('0ms').describe('Pause between two requests, for devices that need one.'),
    backoff: backoff('500ms', '30s').describe('Waits between connection attempts.'),
    ...common,
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
      if (rtu && (unit === 0 || unit > SERIAL_UNIT_MAX))
        complain(['devices', index, 'unit'], `a unit on a serial line is from 1 to ${SERIAL_UNIT_MAX}, found ${unit}`);
    checkCommon(reader, complain);
  });

const opcuaReader = opcuaShape(common).superRefine((reader, context) => {
  const complain = (path: (string | number)[], message: string) => context.addIssue({ code: 'custom', path, message });
  for (const { path, message } of identityFaults(reader)) complain([path], message);
  checkCommon(reader, complain);
});

interface Checked {
  readonly topic: string;
  readonly commands?: object | undefined;
  readonly devices: readonly {
    readonly labels: Readonly<Record<string, string>>;
    readonly groups: readonly { readonly tags: readonly { readonly write?: object | undefined }[] }[];
  }[];
}

/** Labels that the topic needs, and tags that may be written although nobody can ask for it. */
function checkCommon(reader: Checked, complain: (path: (string | number)[], message: string) => void): void {
  const fields = placeholdersOf(reader.topic).filter((name) => !READING_FIELDS.includes(name));
  for (const [index, { labels, groups }] of reader.devices.entries()) {
    for (const name of fields)
      if (labels[name] === undefined) complain(['devices', index, 'labels'], `the topic needs a label ${name}`);
    for (const name of READING_FIELDS)
      if (labels[name] !== undefined) complain(['devices', index, 'labels'], `${name} is no label, it is always known`);
    for (const [g, { tags }] of groups.entries())
      for (const [t, { write }] of tags.entries())
        if (write && !reader.commands)
          complain(['devices', index, 'groups', g, 'tags', t, 'write'], 'needs commands at the reader');
  }
}

/** One link to the plant's devices. */
export const reader = z.discriminatedUnion('type', [modbusReader, opcuaReader]);

export type ReaderConfig = z.output<typeof reader>;
export type ModbusReaderConfig = Extract<ReaderConfig, { type: 'modbus' }>;
export type OpcuaReaderConfig = Extract<ReaderConfig, { type: 'opcua' }>;
