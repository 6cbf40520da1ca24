import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GOOD } from '../../src/model/reading.js';
import { until } from '../helpers/wait.js';
import { answerTo, honest } from './readers.fake-device.js';
import { press, Rig } from './readers.rig.js';

const oven = { ...press, asset: 'oven', unit: 2 };

test('a slow device has a timeout and retries of its own', async (t) => {
  const devices = [
    { ...press, retries: 0 },
    { ...oven, timeoutMs: 5000 },
  ];
  let silent = true;
  const rig = await Rig.start(t, { devices, timeoutMs: 30, retries: 3 }, (question) => {
    if (question.unit === 2) setTimeout(() => question.socket.write(answerTo(question)), 60);
    else if (!silent) honest(question, rig.device);
  });
  await until('the slow one read', () => rig.batches.filter(({ device }) => device === 'oven').length >= 3);
  assert.equal(rig.status('oven').timeouts, 0);
  await until('the silent one down', () => rig.status('press').cause === 'device.timeout');
  const asked = rig.device.questions.filter(({ unit }) => unit === 1);
  assert.equal(asked[0]?.quantity, 3);
  silent = false;
  await until('and back', () => rig.samplesOf('r10').some(({ quality }) => quality === GOOD));
});

test('a device that needs rest between two requests gets it, and the others do not wait', async (t) => {
  const minGapMs = 150;
  let answeredAt = Number.NEGATIVE_INFINITY;
  const gaps: number[] = [];
  const devices = [press, { ...oven, minGapMs }];
  const rig = await Rig.start(t, { devices }, (question) => {
    if (question.unit === 2) gaps.push(performance.now() - answeredAt);
    question.socket.write(answerTo(question));
    if (question.unit === 2) answeredAt = performance.now();
  });
  await until('several reads', () => gaps.length >= 4);
  assert.ok(Math.min(...gaps) >= minGapMs, `${Math.min(...gaps)} ms`);
  const asked = rig.device.questions.filter(({ unit }) => unit === 1).length;
  assert.ok(asked > gaps.length * 2, `${asked} questions to the other, ${gaps.length} to this one`);
  assert.equal(rig.device.connections, 1);
});

test('a device that serves one master at a time has its connection back after every poll', async (t) => {
  const devices = [{ ...press, groups: press.groups.map((group) => ({ ...group, everyMs: 100 })) }];
  const rig = await Rig.start(t, { devices, closeAfterPoll: true, backoff: { minMs: 60_000, maxMs: 60_000 } });
  for (let poll = 1; poll <= 4; poll++) {
    await until(`poll ${poll}`, () => rig.batches.length >= poll);
    await until('closed in between', () => rig.device.sockets.size === 0);
    assert.equal(rig.driver.status().link.state, 'resting');
  }
  assert.ok(rig.device.connections >= 4);
  assert.equal(rig.device.socketsMost, 1);
  assert.deepEqual(rig.warnings, []);
  assert.ok(rig.samplesOf('r12').every(({ value, quality }) => value === 12 && quality === GOOD));
  await rig.device.powerOff();
  await until('the loss seen', () => rig.driver.status().link.state === 'backoff');
  await until('told', () => rig.samplesOf('r12').at(-1)?.quality === 8);
});

test('a write wakes a connection that rests', async (t) => {
  const groups = [{ everyMs: 3_600_000, tags: [{ name: 'r10', at: 'hr:10', type: 'u16' as const, write: {} }] }];
  const rig = await Rig.start(t, { devices: [{ ...press, groups }], closeAfterPoll: true }, (question) =>
    question.socket.write(
      question.fc === 6
        ? Buffer.from([question.tid >> 8, question.tid & 255, 0, 0, 0, 6, 1, 6, 0, 10, 0, question.quantity])
        : answerTo(question),
    ),
  );
  await until('the one poll', () => rig.batches.length === 1);
  await until('resting', () => rig.driver.status().link.state === 'resting');
  const result = await rig.driver.write({ device: 'press', tag: 'r10', value: 10 }, () => true);
  assert.deepEqual([result.outcome, result.readBack?.value], ['done', 10]);
});
