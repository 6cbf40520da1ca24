import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Millis } from '../../src/model/ids.js';
import { Holes } from '../../src/readers/modbus/holes.js';
import { LinkCost } from '../../src/readers/modbus/link-cost.js';
import { type Extent, type PlanOptions, planBlocks } from '../../src/readers/modbus/plan.js';
import { SkippedPolls } from '../../src/readers/modbus/skipped-polls.js';

const hr = (address: number, quantity = 1): Extent => ({ table: 'hr', address, quantity });
const co = (address: number): Extent => ({ table: 'co', address, quantity: 1 });
const plan = (tags: Extent[], options: Partial<PlanOptions> = {}) =>
  planBlocks(tags, { gapRegisters: 16, ...options }).map(({ address, quantity }) => [address, quantity]);

test("a device's own limits, one request per tag, and coils from zero", () => {
  const tags = [0, 2, 4, 6].map((address) => hr(address, 2));
  assert.deepEqual(plan(tags, { registersMax: 4 }), [
    [0, 4],
    [4, 4],
  ]);
  assert.deepEqual(plan(tags, { oneRequestPerTag: true }), [
    [0, 2],
    [2, 2],
    [4, 2],
    [6, 2],
  ]);
  assert.deepEqual(plan([co(37), co(40)], { coilsFromZero: true }), [[0, 41]]);
  assert.deepEqual(plan([co(37), co(3000)], { coilsFromZero: true }), [
    [0, 38],
    [3000, 1],
  ]);
  assert.deepEqual(plan([co(0), co(70)], { bitsMax: 64 }), [
    [0, 1],
    [70, 1],
  ]);
  assert.deepEqual(plan([hr(0), hr(2)], { gapRegisters: 0 }), [
    [0, 1],
    [2, 1],
  ]);
});

test('nothing is read across a refused tag, and its neighbours stay together', () => {
  const clock = { now: () => 0 as Millis, mono: () => 0 };
  const tags = [hr(0), hr(1), hr(2), hr(3), hr(4)];
  const holes = new Holes(1000, clock);
  const before = holes.version();
  holes.isolate(tags[2] as Extent);
  assert.notEqual(holes.version(), before);
  assert.deepEqual(plan(tags, { holes }), [
    [0, 2],
    [2, 1],
    [3, 2],
  ]);
  holes.split(hr(4));
  assert.deepEqual(plan(tags, { holes }), [
    [0, 2],
    [2, 1],
    [3, 1],
    [4, 1],
  ]);
});

test('a tag that overlaps a refused one is asked for by itself', () => {
  const wide = hr(10, 2);
  const holes = new Holes(1000, { now: () => 0 as Millis, mono: () => 0 });
  holes.isolate(wide);
  assert.deepEqual(plan([wide, hr(11), hr(12)], { holes }), [
    [10, 2],
    [11, 1],
    [12, 1],
  ]);
});

test('holes are forgotten after their time, counted from the first', () => {
  let mono = 0;
  const holes = new Holes(1000, { now: () => 0 as Millis, mono: () => mono });
  holes.isolate(hr(5));
  mono = 900;
  holes.split(hr(9));
  const version = holes.version();
  mono = 999;
  assert.equal(holes.version(), version);
  mono = 1000;
  assert.notEqual(holes.version(), version);
  assert.equal(holes.cross('hr', 0, 100), false);
});

test('the gap follows from what a request costs', () => {
  assert.equal(new LinkCost(0).gapRegisters(), 16, 'unknown');
  const byteTimeMs = (11 * 1000) / 9600;
  const slow = new LinkCost(byteTimeMs).gapRegisters();
  assert.ok(slow >= 10 && slow <= 20, `9600 baud: ${slow}`);
  assert.equal(new LinkCost((11 * 1000) / 115_200).gapRegisters(), 60);

  const measured = new LinkCost(0);
  for (let i = 0; i < 100; i++) {
    const bytes = 2 + (i % 50) * 4;
    measured.add(bytes, 30 + bytes * byteTimeMs);
  }
  const behindGateway = measured.gapRegisters();
  assert.ok(behindGateway >= 12 && behindGateway <= 15, `a converter at 9600 baud: ${behindGateway}`);
  const read = measured.readMs(100);
  assert.ok(Math.abs(read - (30 + 100 * byteTimeMs)) < 1, `${read} ms`);

  const fast = new LinkCost(0);
  for (let i = 0; i < 100; i++) fast.add(2 + (i % 50) * 4, 2);
  assert.equal(fast.gapRegisters(), 60);
  const uniform = new LinkCost(0);
  for (let i = 0; i < 100; i++) uniform.add(20, 2 + i);
  assert.equal(uniform.gapRegisters(), 16, 'answers of one length tell nothing');
});

test('skipped cycles are gathered and told once a minute', () => {
  const skipped = new SkippedPolls();
  const at = (ms: number) => ms as Millis;
  skipped.add(0, at(500), at(1000));
  assert.equal(skipped.take(at(100_000)), undefined);
  skipped.add(3, at(1000), at(5000));
  skipped.add(2, at(40_000), at(45_000));
  assert.equal(skipped.take(at(60_000)), undefined);
  assert.deepEqual(skipped.take(at(61_000)), { from: 1000, cycles: 5 });
  assert.equal(skipped.take(at(200_000)), undefined);
  skipped.add(1, undefined, at(300_000));
  assert.equal(skipped.take(at(300_010)), undefined);
  assert.deepEqual(skipped.take(at(300_010), true), { from: 300_000, cycles: 1 });
});
