import { Buffer } from 'node:buffer';
import { assertNever } from '../lib/assert.js';
import type { MachineValues } from './bottling-line.js';
import { COILS, LINE_TAGS, type LineTag, REGISTERS } from './line-tags.js';

/** One machine's memory at one moment. Never changed: a read in flight keeps the values it was answered with. */
export interface UnitImage {
  readonly values: MachineValues;
  /** Big-endian words. */
  readonly registers: Buffer;
  readonly coils: readonly boolean[];
}

export interface TagPlace {
  readonly tag: LineTag;
  readonly table: 'registers' | 'coils';
  readonly from: number;
  /** Registers or coils it covers. */
  readonly width: number;
}

const REGISTERS_OF = { bool: 0, u16: 1, i16: 1, u32: 2, f32: 2, u64: 4 } as const;

const PLACES: readonly TagPlace[] = LINE_TAGS.map((tag) => {
  const from = Number(tag.at.slice('hr:'.length));
  if (tag.type === 'bool') return { tag, table: 'coils', from, width: 1 };
  const width = tag.type === 'string' ? Math.ceil((tag.length ?? 0) / 2) : REGISTERS_OF[tag.type];
  return { tag, table: 'registers', from, width };
});

export function placesOf(unit: number): readonly TagPlace[] {
  return PLACES.filter(({ tag }) => tag.unit === unit);
}

export function imageOf(places: readonly TagPlace[], values: MachineValues): UnitImage {
  const registers = Buffer.alloc(REGISTERS * 2);
  const coils = new Array<boolean>(COILS).fill(false);
  for (const { tag, from, width } of places) {
    if (tag.type === 'bool') coils[from] = values.running;
    else write(registers.subarray(from * 2, (from + width) * 2), tag, values[tag.name]);
  }
  return { values, registers, coils };
}

function write(at: Buffer, tag: LineTag, value: MachineValues[LineTag['name']]): void {
  switch (tag.type) {
    case 'u16':
      at.writeUInt16BE(value as number);
      break;
    case 'i16':
      at.writeInt16BE(value as number);
      break;
    case 'u32':
      at.writeUInt32BE(value as number);
      break;
    case 'f32':
      at.writeFloatBE(value as number);
      break;
    case 'u64':
      at.writeBigUInt64BE(value as bigint);
      break;
    case 'string':
      at.write(value as string, 'latin1');
      break;
    case 'bool':
      break;
    default:
      assertNever(tag.type, 'tag type');
  }
  if (tag.order === 'CDAB') at.swap32().swap16();
}
