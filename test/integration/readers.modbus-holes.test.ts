import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GOOD } from '../../src/model/reading.js';
import { until } from '../helpers/wait.js';
import { answerTo, type Behaviour, exceptionTo, type Question } from './readers.fake-device.js';
import { press, Rig } from './readers.rig.js';

const HOLES = new Set([12, 30, 31]);

const refusing =
  (refused: (question: Question) => boolean): Behaviour =>
  (question) =>
    void question.socket.write(refused(question) ? exceptionTo(question, 2) : answerTo(question));

const touches = ({ address, quantity }: Question, holes: Iterable<number>) =>
  [...holes].some((hole) => address <= hole && hole < address + quantity);

const tags = [10, 11, 12, 13, 14, 28, 34, 35].map((n) => ({ name: `r${n}`, at: `hr:${n}`, type: 'u16' as const }));
const device = { ...press, groups: [{ everyMs: 20, tags }] };
/** Nothing is tried again within this test. */
const NEVER = { backoff: { minMs: 600_000, maxMs: 600_000 } };

test('holes are found by halving, remembered, and cost their neighbours not one cycle', async (t) => {
  // Register 12 is a tag; 30 and 31 lie between two tags.
  const rig = await Rig.start(
    t,
    { devices: [device], ...NEVER },
    refusing((question) => touches(question, HOLES)),
  );
  await rig.more('r35', 5);
  const cycles = rig.samplesOf('r35').length;
  for (const { name } of tags.filter(({ name }) => name !== 'r12')) {
    const samples = rig.samplesOf(name);
    assert.ok(samples.length >= cycles && samples.every(({ quality }) => quality === GOOD), name);
    assert.ok(samples.every(({ value }) => value === Number(name.slice(1))));
  }
  assert.deepEqual(rig.samplesOf('r12'), [{ tag: 'r12', type: 'i', value: null, quality: 4 }]);
  const before = rig.device.questions.length;
  await rig.more('r35', 5);
  const later = rig.device.questions.slice(before);
  assert.ok(
    later.every((question) => !touches(question, HOLES)),
    'what was learnt is not asked again',
  );
  const shapes = new Set(later.map(({ address, quantity }) => `${address}+${quantity}`));
  assert.deepEqual([...shapes].sort(), ['10+2', '13+16', '34+2']);
});

test('a hole that is filled is found again, with a gap for its tag, and all are read together as before', async (t) => {
  let holes: Iterable<number> = HOLES;
  const backoff = { minMs: 5, maxMs: 20 };
  const options = { devices: [device], backoff, holeRetestMs: 100 };
  const rig = await Rig.start(
    t,
    options,
    refusing((question) => touches(question, holes)),
  );
  await until('bad', () => rig.samplesOf('r12').length === 1);
  await rig.more('r35', 3);
  holes = [];
  await until('good', () => rig.samplesOf('r12').some(({ value }) => value === 12));
  const found = rig.batches.find(({ tagGaps }) => tagGaps?.some(({ tag }) => tag === 'r12'));
  const [gap] = found?.tagGaps ?? [];
  assert.ok(found && gap && gap.missed >= 3 && gap.from < gap.to && gap.to === found.ts, JSON.stringify(gap));
  await until('one read', () => {
    const last = rig.device.questions.at(-1);
    return last?.address === 10 && last.quantity === 26;
  });
  await until('online', () => rig.status().state === 'online');
});

test('a device that refuses everything for a while comes back as a whole', async (t) => {
  let stopped = false;
  const rig = await Rig.start(
    t,
    { devices: [device] },
    refusing(() => stopped),
  );
  await rig.more('r10', 2);
  stopped = true;
  await until('all bad', () => tags.every(({ name }) => rig.samplesOf(name).at(-1)?.quality === 4));
  stopped = false;
  for (const { name } of tags) await rig.more(name, 2);
  await until('one read', () => rig.device.questions.at(-1)?.quantity === 26);
});

test('a whole group as one message', async (t) => {
  const groups = [{ everyMs: 20, message: 'all', tags: [tags[0]!, { ...tags[1]!, at: 'hr:500' }] }];
  const rig = await Rig.start(t, { devices: [{ ...press, groups }] });
  await until('three', () => rig.batches.length >= 3);
  for (const { message, samples } of rig.batches) {
    assert.equal(message, 'all');
    assert.deepEqual(
      samples.map(({ tag, value }) => [tag, value]),
      [
        ['r10', 10],
        ['r11', 500],
      ],
    );
  }
});
