import { assert } from '../../lib/assert.js';
import { isBitTable, type Table } from './address.js';
import { BITS_PER_READ_MAX, REGISTERS_PER_READ_MAX } from './requests.js';

/** Where a tag lies: registers, or bits in the tables of bits. */
export interface Extent {
  readonly table: Table;
  readonly address: number;
  readonly quantity: number;
}

/** One read, and the tags that its answer holds. */
export interface Block<T extends Extent> extends Extent {
  readonly tags: readonly T[];
}

/**
 * Registers that may be read for nothing between two tags. Measured on 300 tags: 16 gives 15 requests instead of 58, more
 * gains little, and every hole that is read is one the device may refuse.
 */
const GAP_REGISTERS_MAX = 16;
/** The same number of bytes in the tables of bits. */
const GAP_BITS_MAX = 256;

/**
 * The fewest reads, in address order, that cover all tags: neighbours go into one read while the hole between them is
 * small and the read stays within the limits of the protocol. A tag is never split, since its halves would be of two times.
 */
export function planBlocks<T extends Extent>(tags: readonly T[]): Block<T>[] {
  const sorted = [...tags].sort((a, b) => compare(a.table, b.table) || a.address - b.address);
  const blocks: { table: Table; address: number; quantity: number; tags: T[] }[] = [];
  for (const tag of sorted) {
    const bits = isBitTable(tag.table);
    const quantityMax = bits ? BITS_PER_READ_MAX : REGISTERS_PER_READ_MAX;
    assert(tag.quantity >= 1 && tag.quantity <= quantityMax, 'a tag fits into one read', { quantity: tag.quantity });
    const block = blocks.at(-1);
    if (block && block.table === tag.table) {
      const quantity = Math.max(block.quantity, tag.address + tag.quantity - block.address);
      const hole = tag.address - (block.address + block.quantity);
      if (hole <= (bits ? GAP_BITS_MAX : GAP_REGISTERS_MAX) && quantity <= quantityMax) {
        block.quantity = quantity;
        block.tags.push(tag);
        continue;
      }
    }
    blocks.push({ table: tag.table, address: tag.address, quantity: tag.quantity, tags: [tag] });
  }
  return blocks;
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
