import { HoldfastError, messageOf } from '../../lib/errors.js';
import { GOOD, type ReadingType } from '../../model/reading.js';
import { GAP_METRIC, type Sample } from '../driver.js';
import { BAD_SENSOR_FAILURE } from '../quality.js';
import { isBitTable, parseAddress } from './address.js';
import {
  BYTE_ORDERS,
  type Decoded,
  decoderOf,
  readingTypeOf,
  registersOf,
  TAG_TYPES,
  type ValueFormat,
} from './decode.js';
import type { ModbusDeviceOptions, ModbusOptions, ModbusTagOptions } from './options.js';
import type { Block, Extent } from './plan.js';
import { REGISTERS_PER_READ_MAX } from './requests.js';

/** A tag made ready: where it lies and how its value is read. */
export interface Tag extends Extent {
  readonly name: string;
  readonly type: ReadingType;
  /** The value in the data bytes of a block that holds this tag. */
  decode(data: Buffer, block: Extent): Decoded;
}

/** Polling faster than this is a slip of the pen: no PLC has new values that often, and the link is never idle again. */
const EVERY_MS_MIN = 10;

/** Throws `config.invalid` for what a schema cannot see: addresses, types that do not fit them, names that are taken. */
export function compileTags(options: ModbusOptions): Tag[][][] {
  const problems: string[] = [];
  const assets = new Set<string>();
  const compiled = options.devices.map((device, d) => {
    const names = new Set<string>();
    // Its status and its gaps go by the name of the asset alone.
    if (assets.has(device.asset)) problems.push(`devices[${d}].asset: '${device.asset}' is there twice`);
    assets.add(device.asset);
    if (!Number.isInteger(device.unit) || device.unit < 0 || device.unit > 255)
      problems.push(`devices[${d}].unit: ${device.unit} is no unit id from 0 to 255`);
    return device.groups.map((group, g) => {
      if (!(group.everyMs >= EVERY_MS_MIN))
        problems.push(`devices[${d}].groups[${g}].everyMs: ${group.everyMs} is below ${EVERY_MS_MIN} ms`);
      return group.tags.flatMap((tag, t) => {
        try {
          if (names.has(tag.name)) throw new Error('the name is there twice');
          names.add(tag.name);
          return [compileTag(tag, device)];
        } catch (error) {
          problems.push(`devices[${d}].groups[${g}].tags[${t}] (${tag.name}): ${messageOf(error)}`);
          return [];
        }
      });
    });
  });
  if (problems.length > 0) throw new HoldfastError('config.invalid', problems.join('; '), { values: { problems } });
  return compiled;
}

export function compileTag(tag: ModbusTagOptions, device: Pick<ModbusDeviceOptions, 'order' | 'addressing'>): Tag {
  const { table, address, bit } = parseAddress(tag.at, device.addressing);
  const { name, type, order = device.order, scale = 1, offset = 0, length = 0 } = tag;
  const format: ValueFormat = { type, order, bit, length, scale, offset };
  const bits = isBitTable(table);
  demand(name.length > 0 && name !== GAP_METRIC, `'${name}' cannot be the name of a tag`);
  demand(TAG_TYPES.includes(type), `'${type}' is no type; there are ${TAG_TYPES.join(', ')}`);
  demand(BYTE_ORDERS.includes(order), `'${order}' is no byte order; there are ${BYTE_ORDERS.join(', ')}`);
  demand(!bits || type === 'bool', `a ${table} is one bit, so its type is bool`);
  demand(
    bits || (bit !== null) === (type === 'bool'),
    'a bool in a register names its bit (hr:300.3), and only a bool does',
  );
  const lengthFits = type === 'string' ? Number.isInteger(length) && length > 0 : length === 0;
  demand(lengthFits, 'length is the number of bytes of a string; a string needs it, and nothing else has it');
  const quantity = bits ? 1 : registersOf(format);
  demand(quantity <= REGISTERS_PER_READ_MAX, `a string has at most ${REGISTERS_PER_READ_MAX * 2} bytes`);
  demand(address + quantity <= 0x10000, 'the value ends beyond address 65535');
  demand(Number.isFinite(scale) && scale !== 0 && Number.isFinite(offset), 'scale and offset are numbers, scale not 0');
  demand((scale === 1 && offset === 0) || (type !== 'bool' && type !== 'string'), 'only numbers can be scaled');

  const place = { name, table, address, quantity, type: readingTypeOf(format) };
  if (bits) {
    const bitAt = (data: Buffer, index: number) => (((data[index >>> 3] as number) >>> (index & 7)) & 1) === 1;
    return { ...place, decode: (data, block) => bitAt(data, address - block.address) };
  }
  const decode = decoderOf(format);
  return { ...place, decode: (data, block) => decode(data, (address - block.address) * 2) };
}

/**
 * A value that the device itself calls no number becomes null with the quality "sensor failure" and stays in the stream:
 * it was asked and it answered, so this is a reading, and the consumer sees when the sensor broke.
 */
export function samplesOf(block: Block<Tag>, data: Buffer): Sample[] {
  return block.tags.map((tag) => {
    const value = tag.decode(data, block);
    return { tag: tag.name, type: tag.type, value, quality: value === null ? BAD_SENSOR_FAILURE : GOOD };
  });
}

function demand(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new Error(problem);
}
