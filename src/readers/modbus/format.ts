import {
  type BitRange,
  BYTE_ORDERS,
  bitsFault,
  REGISTERS_PER_READ_MAX,
  registersOf,
  TAG_TYPES,
  type TagType,
} from '../../model/modbus.js';
import { isLongOrder } from './byte-order.js';
import { type ConversionOptions, PLAIN, SUNSPEC_INVALID } from './conversion.js';
import type { ValueFormat } from './decode.js';
import type { InvalidValues, ModbusDeviceOptions, ModbusTagOptions } from './options.js';

/** How a tag's value is written and what it means. Throws an error that names what contradicts itself. */
export function compileFormat(
  tag: ModbusTagOptions,
  device: Pick<ModbusDeviceOptions, 'order' | 'invalid'>,
  inBitTable: boolean,
  bits: BitRange | null,
): { format: ValueFormat; conversion: ConversionOptions } {
  const { type, order = device.order, length = 0, chars = 'both' } = tag;
  demand(TAG_TYPES.includes(type), `'${type}' is no type; there are ${TAG_TYPES.join(', ')}`);
  demand(BYTE_ORDERS.includes(order), `'${order}' is no byte order; there are ${BYTE_ORDERS.join(', ')}`);
  demand(!inBitTable || type === 'bool', 'a coil or an input is one bit, so its type is bool');
  const fault = inBitTable ? undefined : bitsFault(type, bits, 'hr:300');
  demand(fault === undefined, fault ?? '');
  const lengthFits = type === 'string' ? Number.isInteger(length) && length > 0 : length === 0;
  demand(lengthFits, 'length is the number of bytes of a string; a string needs it, and nothing else has it');
  demand(type === 'string' || chars === 'both', 'only a string has a layout of characters');
  demand(wide(type) || !isLongOrder(order), `the order ${order} is for 64-bit values`);
  const format: ValueFormat = { type, order, bits, length, chars };
  demand(
    inBitTable || registersOf(format) <= REGISTERS_PER_READ_MAX,
    `a string has at most ${REGISTERS_PER_READ_MAX * (chars === 'both' ? 2 : 1)} bytes`,
  );
  return { format, conversion: compileConversion(tag, type, tag.invalid ?? device.invalid) };
}

function compileConversion(tag: ModbusTagOptions, type: TagType, invalid: InvalidValues = []): ConversionOptions {
  const { scale = 1, offset = 0, range = null, names } = tag;
  const number = type !== 'bool' && type !== 'string';
  const scaled = scale !== 1 || offset !== 0;
  demand(Number.isFinite(scale) && scale !== 0 && Number.isFinite(offset), 'scale and offset are numbers, scale not 0');
  demand(number || (!scaled && range === null), 'only numbers can be scaled');
  demand(!(scaled && range), 'a range takes the place of scale and offset');
  if (range) {
    demand([...range.raw, ...range.eng].every(Number.isFinite), 'a range has numbers at its ends');
    demand(range.raw[0] !== range.raw[1] && range.eng[0] !== range.eng[1], 'the ends of a range differ');
  }
  demand(
    !names || (type !== 'string' && !type.startsWith('f') && !wide(type)),
    `a ${type} cannot have names for its values`,
  );
  demand(!names || (!scaled && !range), 'a value with names is not scaled');
  const list = invalid === 'sunspec' ? (SUNSPEC_INVALID[type] ?? []) : invalid;
  demand(tag.invalid === undefined || number, `a ${type} has no invalid values`);
  if (!scaled && !range && !names && (!number || list.length === 0)) return PLAIN;
  return { scale, offset, range, names: names ? namesOf(names) : null, invalid: number ? list : [] };
}

function namesOf(names: Readonly<Record<string, string>>): ReadonlyMap<number, string> {
  return new Map(
    Object.entries(names).map(([raw, name]) => {
      demand(raw.trim() !== '' && Number.isInteger(Number(raw)), `'${raw}' is no whole number to give a name to`);
      return [Number(raw), name];
    }),
  );
}

const wide = (type: TagType): boolean => type.endsWith('64');

function demand(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new Error(problem);
}
