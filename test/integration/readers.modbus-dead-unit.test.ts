import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GOOD } from '../../src/model/reading.js';
import { until } from '../helpers/wait.js';
import { answerTo } from './readers.fake-device.js';
import { press, Rig } from './readers.rig.js';

const EVERY_MS = 200;
const CYCLES = 15;

test('a dead unit on a bus takes no cycle from the others, and is asked once in a while', async (t) => {
  const tags = [10, 11].map((n) => ({ name: `r${n}`, at: `hr:${n}`, type: 'u16' as const }));
  const devices = [1, 2, 3].map((unit) => ({
    ...press,
    asset: `unit-${unit}`,
    unit,
    groups: [{ everyMs: EVERY_MS, tags }],
  }));
  const backoff = { minMs: 1000, maxMs: 1000 };
  const rig = await Rig.start(t, { devices, timeoutMs: 40, backoff }, (question) => {
    if (question.unit !== 2) setTimeout(() => question.socket.write(answerTo(question)), 5);
  });
  await until('dead', () => rig.status('unit-2').state === 'offline');
  const before = rig.batches.length;
  const asked = rig.device.questions.length;
  const missed = rig.status('unit-1').missedCycles + rig.status('unit-3').missedCycles;
  const since = () => rig.batches.slice(before).filter(({ device }) => device !== 'unit-2');
  await until('many cycles', () => since().length >= CYCLES * 2, 30_000);

  const lost = rig.status('unit-1').missedCycles + rig.status('unit-3').missedCycles - missed;
  t.diagnostic(`${since().length} of ${since().length + lost} cycles of the healthy units`);
  assert.ok(lost <= since().length * 0.1, `${lost} cycles lost`);
  assert.ok(since().every(({ samples, gap }) => samples.every(({ quality }) => quality === GOOD) && !gap));
  const probes = rig.device.questions.slice(asked).filter(({ unit }) => unit === 2).length;
  assert.ok(probes > 0 && probes <= CYCLES / 2, `${probes} questions to the dead unit`);
  assert.equal(rig.device.connections, 1);
});
