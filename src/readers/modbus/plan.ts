import { assert } from '../../lib/assert.js';
import { BITS_PER_READ_MAX, isBitTable, REGISTERS_PER_READ_MAX, type Table } from '../../model/modbus.js';
import type { DeviceLimits } from './options.js';

/** Where a tag lies: registers, or bits in the tables of bits. */
export interface Extent {
  readonly table: Table;
  readonly address: number;
  readonly quantity: number;
}

/** One read, and the tags that its answer holds. */
export interface Block<T extends Extent> extends Extent {
  /** In the order of their addresses. */
  readonly tags: readonly T[];
}

export interface PlanOptions extends Omit<DeviceLimits, 'gap'> {
  /** Registers that may be read for nothing between two tags; the same number of bytes in the tables of bits. */
  readonly gapRegisters: number;
  readonly holes?: {
    isIsolated(extent: Extent): boolean;
    cross(table: Table, address: number, quantity: number): boolean;
  };
}

const BITS_PER_REGISTER = 16;

/**
 * The fewest reads, in address order, that cover all tags: neighbours go into one read while the hole between them is
 * small and the read stays within the limits of the protocol and the device. A tag is never split, since its halves would
 * be of two times.
 */
export function planBlocks<T extends Extent>(tags: readonly T[], options: PlanOptions): Block<T>[] {
  const sorted = [...tags].sort((a, b) => compare(a.table, b.table) || a.address - b.address);
  const blocks: Growing<T>[] = [];
  for (const tag of sorted) {
    assert(tag.quantity >= 1 && tag.quantity <= quantityMax(tag.table, options), 'a tag fits into one read', {
      quantity: tag.quantity,
    });
    const block = blocks.at(-1);
    if (!block || !join(block, tag, options)) blocks.push({ ...blockOf([tag], options), tags: [tag] });
  }
  return blocks;
}

/** A read of exactly these tags. */
export function blockOf<T extends Extent>(tags: readonly T[], options: Omit<PlanOptions, 'gapRegisters'>): Block<T> {
  const [first] = tags;
  assert(first, 'a read has a tag');
  const { table } = first;
  const end = Math.max(...tags.map((tag) => tag.address + tag.quantity));
  const fromZero = isBitTable(table) && options.coilsFromZero && end <= quantityMax(table, options);
  const address = fromZero ? 0 : Math.min(...tags.map((tag) => tag.address));
  return { table, address, quantity: end - address, tags };
}

export function sameRange(a: Extent, b: Extent): boolean {
  return a.table === b.table && a.address === b.address && a.quantity === b.quantity;
}

export function quantityMax(table: Table, { bitsMax, registersMax }: DeviceLimits): number {
  return isBitTable(table) ? (bitsMax ?? BITS_PER_READ_MAX) : (registersMax ?? REGISTERS_PER_READ_MAX);
}

interface Growing<T extends Extent> extends Extent {
  quantity: number;
  readonly tags: T[];
}

/** True when the read now covers the tag too. */
function join<T extends Extent>(block: Growing<T>, tag: T, options: PlanOptions): boolean {
  const { gapRegisters, holes, oneRequestPerTag } = options;
  if (block.table !== tag.table || oneRequestPerTag) return false;
  if (holes?.isIsolated(tag) || (block.tags.length === 1 && holes?.isIsolated(block.tags[0] as T))) return false;
  const gapMax = isBitTable(tag.table) ? gapRegisters * BITS_PER_REGISTER : gapRegisters;
  const end = block.address + block.quantity;
  if (tag.address - end > gapMax) return false;
  const quantity = Math.max(end, tag.address + tag.quantity) - block.address;
  if (quantity > quantityMax(tag.table, options)) return false;
  if (holes?.cross(tag.table, block.address, quantity)) return false;
  block.quantity = quantity;
  block.tags.push(tag);
  return true;
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
