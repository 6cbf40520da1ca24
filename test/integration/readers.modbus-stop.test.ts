import assert from 'node:assert/strict';
import { test } from 'node:test';
import { within } from '../../src/lib/clock.js';
import { GOOD } from '../../src/model/reading.js';
import { until } from '../helpers/wait.js';
import { answerTo, exceptionTo } from './readers.fake-device.js';
import { Rig } from './readers.rig.js';

/** Only to tell "settles" from "hangs". */
const BOUND_MS = 10_000;

test('a stop takes the answer that is on its way, hands it over, and ends the connection', async (t) => {
  const rig = await Rig.start(t, { timeoutMs: 5000 });
  await rig.more('r10', 2);
  let release: (() => void) | undefined;
  rig.device.behave = (question) => {
    release = () => question.socket.write(answerTo(question));
  };
  await until('a question', () => release);
  const before = rig.samplesOf('r10').length;
  const stopped = rig.driver.stop();
  release?.();
  await within(stopped, BOUND_MS, 'stop');
  assert.equal(rig.samplesOf('r10').length, before + 1);
  await until('no socket', () => rig.device.sockets.size === 0);
  assert.ok(
    rig.samplesOf('r12').every(({ quality }) => quality === GOOD),
    'a stop is no failure of the device',
  );
  assert.deepEqual([rig.status().state, rig.status().cause], ['offline', 'stopped']);
  assert.equal(rig.statuses.at(-1)?.cause, 'stopped');
  assert.equal(rig.driver.status().link.state, 'closed');
});

test('a hole that is open at a stop is told, for a device that is away and for a tag that is not given', async (t) => {
  const away = await Rig.start(t);
  await away.more('r10', 2);
  away.device.behave = () => {};
  await until('offline', () => away.status().state === 'offline');
  await within(away.driver.stop(), BOUND_MS, 'stop');
  const last = away.batches.at(-1);
  assert.ok(last?.gap && last.samples.length === 0);
  assert.deepEqual([last.gap.to, last.gap.reason], [last.ts, 'device-unreachable']);

  const hole = await Rig.start(t, {}, (question) => {
    const touches = question.address <= 11 && question.address + question.quantity > 11;
    question.socket.write(touches ? exceptionTo(question, 2) : answerTo(question));
  });
  await until('bad', () => hole.samplesOf('r11').length === 1);
  await hole.more('r12', 3);
  await within(hole.driver.stop(), BOUND_MS, 'stop');
  const told = hole.batches.flatMap(({ tagGaps }) => tagGaps ?? []);
  assert.deepEqual(
    told.map(({ tag, missed }) => [tag, missed >= 3]),
    [['r11', true]],
  );
});

test('a stop during an outage, a backoff and a silence settles', async (t) => {
  const silent = await Rig.start(t, {}, () => {});
  await until('asked', () => silent.device.questions.length > 0);
  await within(silent.driver.stop(), BOUND_MS, 'stop of a silent device');

  const refusing = await Rig.start(t, { backoff: { minMs: 60_000, maxMs: 60_000 } });
  await refusing.more('r10', 1);
  await refusing.device.powerOff();
  await until('backoff', () => refusing.driver.status().link.state === 'backoff');
  await within(refusing.driver.stop(), BOUND_MS, 'stop in backoff');

  const fresh = await Rig.start(t);
  await within(fresh.driver.stop(), BOUND_MS, 'stop right after the start');
  assert.equal(fresh.driver.stop(), fresh.driver.stop());
});

test('a stop waits until what was read is durable', async (t) => {
  const rig = await Rig.start(t);
  rig.hold();
  await rig.more('r10', 1);
  let done = false;
  const stopped = rig.driver.stop().then(() => {
    done = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(done, false);
  rig.release();
  await within(stopped, BOUND_MS, 'stop');
});

test('when there is no time left, a stop gives up at once', async (t) => {
  const rig = await Rig.start(t, { timeoutMs: 60_000 }, () => {});
  rig.hold();
  await until('a question that is never answered', () => rig.device.questions.length > 0);
  rig.hurry.abort();
  await within(rig.driver.stop(), BOUND_MS, 'stop');
  await until('no socket', () => rig.device.sockets.size === 0);
});
