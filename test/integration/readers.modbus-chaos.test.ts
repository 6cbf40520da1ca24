import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GOOD } from '../../src/model/reading.js';
import { until } from '../helpers/wait.js';
import { answerTo, type Behaviour, exceptionTo, type Question } from './readers.fake-device.js';
import { press, Rig } from './readers.rig.js';

const QUESTIONS = 600;

/** Every register changes with every question, so that an old answer cannot pass for a new one. */
const held = (address: number, n: number) => (address * 7919 + n) & 0xffff;
const answer = (question: Question) => answerTo(question, (address) => held(address, question.n));

const honestly: Behaviour = (question) => void question.socket.write(answer(question));

for (const seed of [11, 12])
  test(`seed ${seed}: whatever a device does, every good value is what it held there when it was last asked`, async (t) => {
    const random = seeded(seed);
    let previous: Question | undefined;
    const owed: Buffer[] = [];
    const misdeeds: Behaviour[] = [
      () => {},
      ({ socket }) => socket.resetAndDestroy(),
      ({ socket }) => socket.end(),
      (question) => question.socket.write(answer(question).subarray(0, 1 + Math.floor(random() * 10))),
      (question) => question.socket.write(Buffer.concat([answer(question), answer(question)])),
      (question) => question.socket.write(exceptionTo(question, 1 + Math.floor(random() * 11))),
      // The answer to another question: under this transaction's id, or under its own of long ago.
      (question) => question.socket.write(answer({ ...question, quantity: question.quantity + 1 })),
      (question) => previous && question.socket.write(Buffer.concat([answer(previous), answer(question)])),
      // Late: it comes before the next one's answer.
      (question) => void owed.push(answer(question)),
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
      (misdeed ?? honestly)(question, device);
      previous = question;
    });
    await until('many questions', () => rig.device.questions.length >= QUESTIONS, 60_000);
    rig.device.behave = honestly;
    await until('both healthy', () => devices.every(({ asset }) => rig.status(asset).state === 'online'));
    for (const [i, { samples }] of rig.batches.entries())
      for (const { tag, value, quality } of samples)
        assert.equal(value, quality === GOOD ? held(Number(tag.slice(1)), rig.askedBy[i] as number) : null, tag);
    const samples = rig.batches.flatMap((batch) => batch.samples);
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
