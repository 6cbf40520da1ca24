import { HoldfastError, messageOf } from '../../lib/errors.js';
import { isBitTable, registersOf } from '../../model/modbus.js';
import { GOOD, type ReadingType } from '../../model/reading.js';
import { GAP_METRIC, type Sample } from '../driver.js';
import { BAD_SENSOR_FAILURE } from '../quality.js';
import { parseAddress } from './address.js';
import { type ConversionOptions, type Convert, conversionOf, isPlain, readingTypeOf } from './conversion.js';
import { type Decode, decoderOf, type Raw, type ValueFormat } from './decode.js';
import { compileFormat } from './format.js';
import type { ModbusDeviceOptions, ModbusOptions, ModbusTagOptions, WriteLimits } from './options.js';
import { type Block, type Extent, quantityMax } from './plan.js';

/** A tag made ready: where it lies and what its value is. */
export interface Tag extends Extent {
  readonly name: string;
  readonly type: ReadingType;
  /** Null for a coil or an input. */
  readonly format: ValueFormat | null;
  readonly conversion: ConversionOptions;
  /** Null: it is never written. */
  readonly write: WriteLimits | null;
  /** The value in the data bytes of a block that holds this tag. */
  sample(data: Buffer, block: Extent): Sample;
}

/** Polling faster than this is a slip of the pen: no PLC has new values that often, and the link is never idle again. */
const EVERY_MS_MIN = 10;

/** Throws `config.invalid` for what a schema cannot see: addresses, types that do not fit them, names that are taken. */
export function compileTags(options: Pick<ModbusOptions, 'devices'>): Tag[][][] {
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
      if (group.message !== undefined && names.has(group.message))
        problems.push(`devices[${d}].groups[${g}].message: '${group.message}' is the name of a tag`);
      if (group.message !== undefined) names.add(group.message);
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

export function compileTag(
  options: ModbusTagOptions,
  device: Pick<ModbusDeviceOptions, 'order' | 'addressing' | 'invalid' | 'limits'>,
): Tag {
  const { name } = options;
  if (name.length === 0 || name === GAP_METRIC) throw new Error(`'${name}' cannot be the name of a tag`);
  const { table, address, bits } = parseAddress(options.at, device.addressing);
  const { format, conversion } = compileFormat(options, device, isBitTable(table), bits);
  const quantity = isBitTable(table) ? 1 : registersOf(format);
  if (address + quantity > 0x10000) throw new Error('the value ends beyond address 65535');

  const type = readingTypeOf(format.type, conversion);
  const convert = conversionOf(format, conversion);
  const { write = null } = options;
  if (write && table !== 'co' && table !== 'hr') throw new Error('only coils and holding registers can be written');
  if (write && bits && quantity > 1) throw new Error('a field of more than one register cannot be written at once');
  const max = quantityMax(table, device.limits ?? {});
  if (quantity > max) throw new Error(`has ${quantity} registers, and the device gives ${max} in one read`);
  const place = { name, table, address, quantity, type, conversion, write };
  if (isBitTable(table)) return new CompiledTag({ ...place, format: null }, bitOf, convert);
  return new CompiledTag({ ...place, format }, sharedDecoder(format), isPlain(conversion) ? null : convert);
}

/** One shape for all tags, and nothing of its own that others have too: there may be 100 000 of them, read every second. */
class CompiledTag implements Tag {
  readonly name: string;
  readonly table: Tag['table'];
  readonly address: number;
  readonly quantity: number;
  readonly type: ReadingType;
  readonly format: ValueFormat | null;
  readonly conversion: ConversionOptions;
  readonly write: WriteLimits | null;
  private readonly decode: (data: Buffer, offset: number) => Raw;
  private readonly convert: Convert | null;

  /** `convert`: null where every value means itself. */
  constructor(tag: Omit<Tag, 'sample'>, decode: (data: Buffer, offset: number) => Raw, convert: Convert | null) {
    this.name = tag.name;
    this.table = tag.table;
    this.address = tag.address;
    this.quantity = tag.quantity;
    this.type = tag.type;
    this.format = tag.format;
    this.conversion = tag.conversion;
    this.write = tag.write;
    this.decode = decode;
    this.convert = convert;
  }

  sample(data: Buffer, block: Extent): Sample {
    const { name: tag, type, format, convert } = this;
    const offset = this.address - block.address;
    const raw = this.decode(data, format ? offset * 2 : offset);
    if (!convert) return { tag, type, value: raw, quality: raw === null ? BAD_SENSOR_FAILURE : GOOD };
    const { value, quality } = convert(raw);
    return { tag, type, value, quality };
  }
}

const bitOf = (data: Buffer, offset: number): Raw => (((data[offset >>> 3] as number) >>> (offset & 7)) & 1) === 1;

const decoders = new Map<string, Decode>();

/** Decoders keep nothing between two calls. There are a few hundred formats at most, strings of every length aside. */
function sharedDecoder(format: ValueFormat): Decode {
  if (format.type === 'string') return decoderOf(format);
  const key = `${format.type} ${format.order} ${format.bits?.low} ${format.bits?.high}`;
  const decode = decoders.get(key) ?? decoderOf(format);
  decoders.set(key, decode);
  return decode;
}

/**
 * A value that the device itself calls none becomes null with the quality "sensor failure" and stays in the stream: it was
 * asked and it answered, so this is a reading, and the consumer sees when the sensor broke.
 */
export function samplesOf(block: Block<Tag>, data: Buffer): Sample[] {
  return block.tags.map((tag) => tag.sample(data, block));
}
