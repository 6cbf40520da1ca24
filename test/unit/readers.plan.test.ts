import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isBitTable, type Table } from '../../src/model/modbus.js';
import { type Extent, planBlocks } from '../../src/readers/modbus/plan.js';
import { compileTag, samplesOf } from '../../src/readers/modbus/tag.js';

const registers = (...places: (readonly [address: number, quantity: number])[]): Extent[] =>
  places.map(([address, quantity]) => ({ table: 'hr', address, quantity }));
const extents = (tags: Extent[]) =>
  planBlocks(tags, { gapRegisters: 16 }).map(({ address, quantity }) => [address, quantity]);

test('neighbours share a read while the hole between them is small', () => {
  assert.deepEqual(extents(registers([0, 2], [2, 1], [19, 1])), [[0, 20]]);
  assert.deepEqual(extents(registers([0, 2], [19, 1])), [
    [0, 2],
    [19, 1],
  ]);
  assert.deepEqual(extents(registers([100, 1], [10, 4], [12, 1])), [
    [10, 4],
    [100, 1],
  ]);
});

test('a read has at most 125 registers, and a value at the limit moves on whole', () => {
  const row = Array.from({ length: 124 }, (_, i) => [i, 1] as const);
  assert.deepEqual(extents(registers(...row, [124, 1])), [[0, 125]]);
  assert.deepEqual(extents(registers(...row, [124, 2])), [
    [0, 124],
    [124, 2],
  ]);
  assert.deepEqual(extents(registers([0, 125], [100, 30])), [
    [0, 125],
    [100, 30],
  ]);
});

test('tables are never mixed, and bits count as bits', () => {
  const tags: Extent[] = (['hr', 'ir', 'co', 'di'] as Table[]).map((table) => ({ table, address: 5, quantity: 1 }));
  assert.equal(planBlocks(tags, { gapRegisters: 16 }).length, 4);
  const coils = Array.from({ length: 2001 }, (_, address) => ({ table: 'co' as const, address, quantity: 1 }));
  assert.deepEqual(extents(coils), [
    [0, 2000],
    [2000, 1],
  ]);
  assert.deepEqual(extents([coils[0]!, coils[257]!, coils[600]!]), [
    [0, 258],
    [600, 1],
  ]);
});

test('for any set of tags: each is in exactly one read, whole, within the limits, and has its own value', () => {
  const random = seeded(20);
  for (let round = 0; round < 300; round++) {
    const tags = Array.from({ length: 1 + Math.floor(random() * 120) }, (_, i) => {
      const table = (['hr', 'ir', 'co', 'di'] as const)[Math.floor(random() * 4)]!;
      const type = (['u16', 'u32', 'u64'] as const)[Math.floor(random() * 3)]!;
      const at = `${table}:${Math.floor(random() * 3000)}`;
      return compileTag(
        { name: `t${i}`, at, type: isBitTable(table) ? 'bool' : type },
        { order: 'ABCD', addressing: 'pdu0' },
      );
    });
    const blocks = planBlocks(tags, { gapRegisters: random() < 0.5 ? 16 : 0 });
    assert.deepEqual(
      blocks.flatMap((block) => block.tags.map(({ name }) => name)).sort(),
      tags.map(({ name }) => name).sort(),
    );
    for (const block of blocks) {
      assert.ok(block.quantity <= (isBitTable(block.table) ? 2000 : 125));
      const data = pattern(block);
      for (const [i, tag] of block.tags.entries()) {
        assert.ok(tag.table === block.table && tag.address >= block.address);
        assert.ok(tag.address + tag.quantity <= block.address + block.quantity);
        assert.equal(samplesOf(block, data)[i]?.value, valueAt(tag));
      }
    }
  }
});

/** What a device would answer whose registers hold their own address, and whose coils are set at every third. */
function pattern({ table, address, quantity }: Extent): Buffer {
  if (!isBitTable(table)) {
    const data = Buffer.alloc(quantity * 2);
    for (let i = 0; i < quantity; i++) data.writeUInt16BE(address + i, i * 2);
    return data;
  }
  const data = Buffer.alloc(Math.ceil(quantity / 8));
  for (let i = 0; i < quantity; i++) if ((address + i) % 3 === 0) data[i >>> 3] = data[i >>> 3]! | (1 << (i & 7));
  return data;
}

function valueAt({ table, address, quantity }: Extent): boolean | number | bigint {
  if (isBitTable(table)) return address % 3 === 0;
  let value = 0n;
  for (let i = 0; i < quantity; i++) value = (value << 16n) | BigInt(address + i);
  return quantity === 4 ? value : Number(value);
}

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
