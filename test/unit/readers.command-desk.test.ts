import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../src/lib/log.js';
import type { Millis } from '../../src/model/ids.js';
import { GOOD } from '../../src/model/reading.js';
import { CommandDesk } from '../../src/readers/command-desk.js';
import type { BegunCommand } from '../../src/readers/command-memory.js';
import type { WriteCommand, WriteResult } from '../../src/readers/driver.js';
import type { Outgoing } from '../../src/readers/reporter.js';

const START = 1_000_000;
const TTL_MAX_MS = 30_000;

function setUp(result: WriteResult = { outcome: 'done' }, kept = new Map<string, BegunCommand>(), begins = true) {
  const time = { now: START };
  const written: WriteCommand[] = [];
  const published: Outgoing[] = [];
  const clock = { now: () => time.now as Millis, mono: () => time.now };
  const desk = new CommandDesk({
    driver: {
      write: async (command, mayStart) => {
        if (!mayStart()) return { outcome: 'expired' };
        written.push(command);
        return result;
      },
    },
    assets: new Set(['press']),
    memory: {
      completeSince: START as Millis,
      begun: new Map(kept),
      begin: async (key, validUntil) => {
        if (!begins) throw new Error('the disk is gone');
        kept.set(key, { validUntil, outcome: null });
      },
      end: (key, begun) => void kept.set(key, begun),
      forget: (key) => void kept.delete(key),
    },
    sink: { publish: async (outgoing) => void published.push(...outgoing) },
    resultTopicOf: (asset, metric) => `result/${asset}/${metric}`,
    ttlMaxMs: TTL_MAX_MS,
    clock,
    log: silentLog,
  });
  /** Publishes a command and gives the outcomes told since. */
  const offer = async (payload: string | object, retain = false) => {
    const before = published.length;
    const bytes = Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload));
    desk.offer({ asset: 'press', metric: 'level', payload: bytes, retain });
    await new Promise((resolve) => setImmediate(resolve));
    return published.slice(before).map(({ message }) => JSON.parse(Buffer.from(message.payload).toString()));
  };
  return { time, written, published, desk, offer, kept };
}

const command = { id: 'c-1', ts: START, value: 42 };

test('a command is carried out, and its outcome told at its own topic, not retained', async () => {
  const readBack = { tag: 'level', type: 'i', value: 2n ** 63n, quality: GOOD } as const;
  const { offer, written, published } = setUp({ outcome: 'done', readBack });
  assert.deepEqual(await offer(command), [
    { id: 'c-1', outcome: 'done', ts: START, readBack: { value: '9223372036854775808', quality: 'good' } },
  ]);
  assert.deepEqual(written, [{ device: 'press', tag: 'level', value: 42 }]);
  const [{ message, identity }] = published as [Outgoing];
  assert.deepEqual([message.topic, message.qos, message.retain, identity], ['result/press/level', 1, false, null]);
});

test('an integer that no double holds arrives exactly', async () => {
  const { offer, written } = setUp();
  await offer(`{"id":"a","ts":${START},"value":18446744073709551615}`);
  assert.equal(written[0]?.value, 2n ** 64n - 1n);
});

test('a repeated command is not carried out again, and gets the outcome of the first', async () => {
  const { offer, written } = setUp({ outcome: 'unknown', code: 'device.timeout' });
  const first = await offer(command);
  assert.deepEqual(await offer(command), first);
  assert.deepEqual(await offer({ ...command, value: 43 }), first, 'the id is what counts');
  assert.equal(written.length, 1);
  await offer({ ...command, id: 'c-2' });
  assert.equal(written.length, 2);
});

test('a command from an old queue is expired, and so is its repeat after it was forgotten', async () => {
  const { offer, written, time } = setUp();
  time.now = START + 5_001;
  assert.deepEqual((await offer({ ...command, ttl: 5000 }))[0].outcome, 'expired');
  assert.equal((await offer({ ...command, ttl: 5002 }))[0].outcome, 'done');
  time.now = START + 3_600_000;
  await offer({ id: 'other', ts: time.now, value: 1 });
  assert.equal((await offer({ ...command, ttl: 5002 }))[0].outcome, 'expired');
  assert.equal(written.length, 2);
});

test('a command of before the memory begins may have been carried out, so nobody knows', async () => {
  const { offer, written } = setUp();
  const [outcome] = await offer({ ...command, ts: START - 1 });
  assert.deepEqual([outcome.outcome, outcome.code], ['unknown', 'no-memory']);
  assert.equal(written.length, 0);
});

test('the next life of the program repeats no command, and gives the outcome of the first', async () => {
  const first = setUp({ outcome: 'unknown', code: 'device.timeout' });
  const [outcome] = await first.offer(command);
  const next = setUp({ outcome: 'done' }, first.kept);
  next.desk.start();
  assert.deepEqual(await next.offer(command), [outcome]);
  assert.deepEqual(next.written, []);
  await next.offer({ ...command, id: 'c-2' });
  assert.equal(next.written.length, 1);
});

test('a command that a crash interrupted is told as unknown, and not begun anew', async () => {
  const kept = new Map<string, BegunCommand>([
    ['["press","level","c-1"]', { validUntil: START + 5000, outcome: null }],
    ['["another","level","c-1"]', { validUntil: START + 5000, outcome: null }],
  ]);
  const { desk, offer, written, published } = setUp({ outcome: 'done' }, kept);
  desk.start();
  const [repeated] = await offer(command);
  assert.deepEqual([repeated.outcome, repeated.code], ['unknown', 'interrupted']);
  assert.deepEqual(
    published.map(({ message }) => message.topic),
    ['result/press/level', 'result/press/level'],
  );
  assert.deepEqual(written, []);
  assert.equal(kept.get('["press","level","c-1"]')?.outcome?.code, 'interrupted');
});

test('what cannot be remembered is not carried out', async () => {
  const { offer, written } = setUp({ outcome: 'done' }, new Map(), false);
  const [outcome] = await offer(command);
  assert.deepEqual([outcome.outcome, outcome.code], ['rejected', 'not-durable']);
  assert.deepEqual(written, []);
});

test('what can no longer come in time is forgotten', async () => {
  const { offer, time, kept } = setUp();
  await offer(command);
  assert.equal(kept.size, 1);
  time.now = START + 3_600_000;
  await offer({ ...command, id: 'c-2', ts: time.now });
  assert.deepEqual([...kept.keys()], ['["press","level","c-2"]']);
});

test('what is no command is rejected with the reason', async () => {
  const { offer, written } = setUp();
  const cases: [payload: string | object, detail: RegExp][] = [
    ['42', /no object/],
    ['{"id":"a","id":"b"}', /duplicate key|twice|"id"/],
    ['{"id":', /./],
    [{ ...command, id: 7 }, /id is no text/],
    [{ ...command, id: '' }, /id is no text/],
    [{ ...command, ts: 'now' }, /ts is not/],
    [{ ...command, ttl: TTL_MAX_MS + 1 }, /ttl is not/],
    [{ ...command, ttl: 0 }, /ttl is not/],
    [{ id: 'a', ts: START }, /value is missing/],
    [{ ...command, ts: START + 3_600_000 }, /in the future/],
  ];
  for (const [payload, detail] of cases) {
    const [outcome] = await offer(payload);
    assert.deepEqual([outcome.outcome, outcome.code], ['rejected', 'malformed']);
    assert.match(outcome.detail, detail);
  }
  assert.equal((await offer(command, true))[0].code, 'retained');
  assert.equal(written.length, 0);
});

test('after the close nothing is taken in', async () => {
  const { desk, offer, written } = setUp();
  await desk.close();
  assert.deepEqual(await offer(command), []);
  assert.equal(written.length, 0);
});
