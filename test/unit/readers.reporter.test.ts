import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../src/lib/log.js';
import type { Millis } from '../../src/model/ids.js';
import { GOOD } from '../../src/model/reading.js';
import type { DeviceStatus, SampleBatch } from '../../src/readers/driver.js';
import { type Outgoing, Reporter } from '../../src/readers/reporter.js';
import { until } from '../helpers/wait.js';

const ms = (value: number) => value as Millis;
const json = ({ message }: Outgoing) => JSON.parse(Buffer.from(message.payload).toString());

function setUp(publish: (outgoing: readonly Outgoing[]) => Promise<void> = async () => {}) {
  const published: (readonly Outgoing[])[] = [];
  const time = { mono: 0 };
  const hurry = new AbortController();
  const reporter = new Reporter({
    sink: {
      publish: async (outgoing) => {
        await publish(outgoing);
        published.push(outgoing);
      },
    },
    topicOf: (asset, metric) => `plant/${asset}/${metric}`,
    statusTopicOf: (asset) => `plant/${asset}/status`,
    encodeReading: ({ ts, type, value, quality }) =>
      Buffer.from(JSON.stringify({ ts, value: type === 'j' ? value : String(value), quality })),
    clock: { now: () => ms(0), mono: () => time.mono },
    log: silentLog,
    signal: hurry.signal,
  });
  return { reporter, published, time, hurry };
}

const batch: SampleBatch = {
  device: 'press',
  ts: ms(5000),
  samples: [
    { tag: 'count', type: 'i', value: 2n ** 63n, quality: GOOD },
    { tag: 'temp', type: 'f', value: null, quality: 16 },
  ],
};

test('every sample is a retained reading with its identity', async () => {
  const { reporter, published } = setUp();
  await reporter.emit(batch);
  assert.equal(published.length, 1, 'one unit');
  assert.deepEqual(
    published[0]?.map(({ message: { topic, qos, retain, props }, identity }) => ({
      topic,
      qos,
      retain,
      props,
      identity,
    })),
    [
      {
        topic: 'plant/press/count',
        qos: 1,
        retain: true,
        props: null,
        identity: { type: 'i', asset: 'press', metric: 'count', deviceTs: 5000 },
      },
      {
        topic: 'plant/press/temp',
        qos: 1,
        retain: true,
        props: null,
        identity: { type: 'f', asset: 'press', metric: 'temp', deviceTs: 5000 },
      },
    ],
  );
  assert.deepEqual(published[0]?.map(json), [
    { ts: 5000, value: '9223372036854775808', quality: 192 },
    { ts: 5000, value: 'null', quality: 16 },
  ]);
});

test('a gap comes before the readings that end it, in the same unit, and is not retained', async () => {
  const { reporter, published } = setUp();
  await reporter.emit({
    ...batch,
    gap: { from: ms(1000), to: ms(5000), missed: 12, cycles: 4, reason: 'device-unreachable' },
  });
  const gap = published[0]?.[0];
  assert.ok(gap && published[0]?.length === 3);
  assert.equal(gap.message.topic, 'plant/press/gap');
  assert.equal(gap.message.retain, false);
  assert.deepEqual(json(gap), {
    from: 1000,
    to: 5000,
    count: 12,
    reason: 'device-unreachable',
    detail: '4 poll cycles',
  });
  assert.deepEqual(gap.identity, { type: 'g', asset: 'press', metric: null, deviceTs: 5000 });
});

test('a hole of one tag is told under its metric', async () => {
  const { reporter, published } = setUp();
  await reporter.emit({ ...batch, tagGaps: [{ tag: 'temp', from: ms(1000), to: ms(5000), missed: 4 }] });
  const gap = published[0]?.[0];
  assert.ok(gap && published[0]?.length === 3);
  assert.deepEqual(gap.identity, { type: 'g', asset: 'press', metric: 'temp', deviceTs: 5000 });
  assert.equal(json(gap).count, 4);
});

test('a whole group is one JSON value, as good as its worst part', async () => {
  const { reporter, published } = setUp();
  await reporter.emit({ ...batch, message: 'all' });
  const [only, ...more] = published[0] ?? [];
  assert.ok(only && more.length === 0);
  assert.equal(only.message.topic, 'plant/press/all');
  assert.deepEqual(only.identity, { type: 'j', asset: 'press', metric: 'all', deviceTs: 5000 });
  assert.deepEqual(json(only), { ts: 5000, value: { count: '9223372036854775808', temp: null }, quality: 16 });
});

test('a sink that fails is tried again, since what was read cannot be read again', async () => {
  let failures = 2;
  const { reporter, published } = setUp(async () => {
    if (failures-- > 0) throw new Error('full');
  });
  await reporter.emit(batch);
  assert.equal(published.length, 1);
});

test('at the very end a batch that nobody takes is rejected', async () => {
  const { reporter, hurry } = setUp(() => Promise.reject(new Error('full')));
  const emitted = reporter.emit(batch);
  hurry.abort();
  await assert.rejects(emitted, /full/);
});

const status: DeviceStatus = {
  device: 'press',
  state: 'online',
  since: ms(1),
  lastOkAt: ms(2),
  rttMs: { p50: 1, p99: 2 },
  timeouts: 0,
  lateAnswers: 0,
  exceptions: 0,
  missedCycles: 0,
};

test('a status is published when the state changes, and else every ten seconds', async () => {
  const { reporter, published, time } = setUp();
  const show = async (mono: number, part: Partial<DeviceStatus>) => {
    time.mono = mono;
    reporter.status({ ...status, ...part });
    await reporter.close();
    return published.length;
  };
  assert.equal(await show(0, {}), 1);
  assert.equal(await show(9999, { timeouts: 1 }), 1);
  assert.equal(await show(10_000, { timeouts: 2 }), 2);
  assert.equal(await show(10_001, { state: 'offline', cause: 'device.timeout' }), 3);
  assert.equal(await show(10_002, { state: 'offline', cause: 'ECONNREFUSED' }), 4);
  assert.equal(await show(10_003, { device: 'oven' }), 5);
  const [first, , third] = published.flat();
  assert.ok(first && third);
  assert.deepEqual(first.identity, null);
  assert.deepEqual([first.message.topic, first.message.retain], ['plant/press/status', true]);
  const { device, ...payload } = status;
  assert.deepEqual(json(first), payload);
  assert.deepEqual(json(third), { ...payload, state: 'offline', cause: 'device.timeout' });
});

test('a sink that is slow gets the newest status next, not a queue of old ones', async () => {
  const gates: (() => void)[] = [];
  const { reporter, published } = setUp(() => new Promise((resolve) => void gates.push(resolve)));
  for (const cause of ['a', 'b', 'c', 'd']) reporter.status({ ...status, cause });
  gates[0]?.();
  await until('the next', () => gates.length === 2);
  gates[1]?.();
  await reporter.close();
  assert.deepEqual(
    published.flat().map((each) => json(each).cause),
    ['a', 'd'],
  );
});
