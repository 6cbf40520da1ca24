import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BottlingLine, type MachineValues, STATE } from '../../src/sim/bottling-line.js';
import { LINE_ASSETS, LINE_TAGS, REGISTERS } from '../../src/sim/line-tags.js';
import { imageOf, placesOf } from '../../src/sim/registers.js';

const TEN_MINUTES = 6000;

function run(seed: number, steps: number): MachineValues[][] {
  const line = new BottlingLine(seed);
  return Array.from({ length: steps }, (_, step) => {
    line.advanceTo(step + 1);
    return LINE_ASSETS.map((asset) => line.values(asset));
  });
}

test('the same seed gives the same values in the same step, however the steps are taken', () => {
  const oneByOne = run(7, 500).at(-1)!;
  const atOnce = new BottlingLine(7);
  atOnce.advanceTo(500);
  assert.deepEqual(
    oneByOne,
    LINE_ASSETS.map((asset) => atOnce.values(asset)),
  );
  assert.notDeepEqual(oneByOne, run(8, 500).at(-1));
});

test('what a running machine measures changes nearly every step', () => {
  const history = run(1, 600);
  LINE_ASSETS.forEach((asset, index) => {
    for (const name of ['speed', 'temperature', 'energy'] as const) {
      const pairs = history.slice(1).map((values, step) => [history[step]![index]!, values[index]!] as const);
      const running = pairs.filter(([before, after]) => before.running && after.running);
      const changed = running.filter(([before, after]) => before[name] !== after[name]).length;
      assert.ok(changed > 0.8 * running.length, `${asset} ${name}: ${changed} of ${running.length} steps`);
    }
  });
});

test('counters only count up, every state occurs, and bottles are not made from nothing', () => {
  const history = run(3, 12 * TEN_MINUTES);
  const seen = new Set<number>();
  history.forEach((values, step) => {
    values.forEach((after, index) => {
      seen.add(after.state);
      const before = history[step - 1]?.[index];
      if (!before) return;
      assert.ok(after.energy >= before.energy && after.reject >= before.reject);
      const bottles = (after.good - before.good + 2 ** 32) % 2 ** 32;
      assert.ok(bottles <= 3, `${bottles} bottles in a step`);
      assert.ok(bottles === 0 || after.running);
    });
  });
  assert.deepEqual([...seen].sort(), Object.values(STATE).sort());
  const [filler, capper] = [history.at(-1)![0]!, history.at(-1)![1]!];
  const [filler0, capper0] = [history[0]![0]!, history[0]![1]!];
  const room = 120;
  assert.ok(capper.good + capper.reject - capper0.good <= filler.good - filler0.good + room);
});

test('the register map fits, and the 32-bit words of the labeler come low word first', () => {
  const line = new BottlingLine(1);
  line.advanceTo(50);
  for (const asset of LINE_ASSETS) {
    const unit = LINE_ASSETS.indexOf(asset) + 1;
    const places = placesOf(unit);
    const used = places.filter(({ table }) => table === 'registers').flatMap(({ from, width }) => [from, from + width]);
    assert.equal(Math.max(...used), REGISTERS);
    const values = line.values(asset);
    const { registers, coils } = imageOf(places, values);
    const words = [registers.readUInt16BE(2), registers.readUInt16BE(4)];
    const [high, low] = asset === 'labeler' ? words.reverse() : words;
    assert.equal(high! * 65_536 + low!, values.good);
    assert.equal(registers.readBigUInt64BE(16), values.energy);
    assert.equal(registers.toString('latin1', 24, 40).replace(/\0+$/, ''), values.recipe);
    assert.deepEqual(coils, [values.running]);
  }
});

test('the hard cases are in the line: beyond 2⁵³, beyond 2³¹, below zero, and a string without an end', () => {
  const history = run(1, 20 * TEN_MINUTES);
  const of = (asset: string) => LINE_ASSETS.indexOf(asset as never);
  assert.ok(history[0]![of('palletizer')]!.energy > 2n ** 53n);
  assert.ok(history[0]![of('filler')]!.good > 2 ** 31);
  assert.ok(history.some((values) => values[of('filler')]!.temperature < 0));
  assert.ok(history.some((values) => values[0]!.recipe.length === 16));
  assert.equal(LINE_TAGS.length, 4 * 8);
});
