import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GOOD } from '../../src/model/reading.js';
import { until } from '../helpers/wait.js';
import { answerTo, type Behaviour, exceptionTo, honest, type Question } from './readers.fake-device.js';
import { press, Rig } from './readers.rig.js';

const QUESTIONS = 600;

test('whatever a device does, every good value is that of its own register', async (t) => {
  const random = seeded(11);
  let previous: Question | undefined;
  const owed: Buffer[] = [];
  const misdeeds: Behaviour[] = [
    () => {},
    ({ socket }) => socket.resetAndDestroy(),
    ({ socket }) => socket.end(),
    (question) => question.socket.write(answerTo(question).subarray(0, 1 + Math.floor(random() * 10))),
    (question) => question.socket.write(Buffer.concat([answerTo(question), answerTo(question)])),
    (question) => question.socket.write(exceptionTo(question, 1 + Math.floor(random() * 11))),
    // The answer to another question: under this transaction's id, or under its own of long ago.
    (question) => question.socket.write(answerTo({ ...question, quantity: question.quantity + 1 })),
    (question) => previous && question.socket.write(Buffer.concat([answerTo(previous), answerTo(question)])),
    // Late: it comes before the next one's answer.
    (question) => void owed.push(answerTo(question)),
    ({ socket }) =>
      socket.write(Buffer.from(Array.from({ length: 1 + Math.floor(random() * 20) }, () => random() * 256))),
  ];
  const groups = [20, 30, 50].map((everyMs, g) => ({
    everyMs,
    tags: [0, 1, 40, 41].map((n) => ({ name: `r${g * 100 + n}`, at: `hr:${g * 100 + n}`, type: 'u16' as const })),
  }));
  const devices = [1, 2].map((unit) => ({ ...press, asset: `unit-${unit}`, unit, groups }));
  const rig = await Rig.start(t, { devices, timeoutMs: 30 }, (question, device) => {
    const misdeed = random() < 0.4 ? misdeeds[Math.floor(random() * misdeeds.length)] : undefined;
    for (const late of owed.splice(0)) question.socket.write(late);
    (misdeed ?? honest)(question, device);
    previous = question;
  });
  await until('many questions', () => rig.device.questions.length >= QUESTIONS, 60_000);
  rig.device.behave = honest;
  await until('both healthy', () => devices.every(({ asset }) => rig.status(asset).state === 'online'));
  const samples = rig.batches.flatMap((batch) => batch.samples);
  for (const { tag, value, quality } of samples)
    if (quality === GOOD) assert.equal(value, Number(tag.slice(1)));
    else assert.equal(value, null);
  assert.ok(samples.filter(({ quality }) => quality === GOOD).length > 300);
  assert.ok(samples.some(({ quality }) => quality !== GOOD));
  await until('the one connection', () => rig.device.sockets.size === 1);
});

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
