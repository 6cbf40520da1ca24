import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import { GOOD } from '../../src/model/reading.js';
import { ModbusDriver } from '../../src/readers/modbus/modbus-driver.js';
import type { DeviceLimits, ModbusTagOptions } from '../../src/readers/modbus/options.js';
import { until } from '../helpers/wait.js';
import { FakeRtu, rtu } from './readers.fake-rtu.js';

const write = {};
const tags: ModbusTagOptions[] = [
  { name: 'plain', at: 'hr:10', type: 'u16', write },
  { name: 'level', at: 'hr:11', type: 'i16', scale: 0.1, write: { min: -10, max: 80.5 } },
  { name: 'total', at: 'hr:12', type: 'i32', order: 'CDAB', write },
  { name: 'big', at: 'hr:14', type: 'u64', write },
  { name: 'bit', at: 'hr:20.9', type: 'bool', write },
  { name: 'swapped', at: 'hr:21.9', type: 'bool', order: 'BADC', write },
  { name: 'field', at: 'hr:22.4-7', type: 'u16', write },
  { name: 'mode', at: 'hr:23', type: 'u16', names: { 0: 'off', 7: 'auto' }, write },
  { name: 'recipe', at: 'hr:24', type: 'string', length: 6, write },
  { name: 'coil', at: 'co:40', type: 'bool', write },
  { name: 'fixed', at: 'hr:50', type: 'u16' },
];

async function started(t: TestContext, limits: DeviceLimits = {}) {
  const device = await FakeRtu.listen(t);
  const stop = new AbortController();
  const read: string[] = [];
  const driver = new ModbusDriver(
    {
      endpoint: device.endpoint,
      connectTimeoutMs: 10_000,
      timeoutMs: 60,
      retries: 1,
      minGapMs: 0,
      backoff: { minMs: 5, maxMs: 20 },
      devices: [
        { asset: 'press', unit: 1, order: 'ABCD', addressing: 'pdu0', limits, groups: [{ everyMs: 3_600_000, tags }] },
      ],
    },
    {
      emit: async (batch) => void read.push(...batch.samples.map(({ tag }) => tag)),
      status: () => {},
      clock: systemClock,
      log: silentLog,
      signal: stop.signal,
    },
  );
  t.after(() => {
    stop.abort();
    return driver.stop();
  });
  driver.start();
  await until('the one poll of this hour', () => read.length === tags.length);
  const put = (tag: string, value: unknown, mayStart = () => true) =>
    driver.write({ device: 'press', tag, value }, mayStart);
  const writes = () => device.requests.filter((request) => ![1, 3].includes(request[1] as number));
  return { device, driver, put, writes };
}

test('values of every kind are written, and read back as they were meant', async (t) => {
  const { device, put, writes } = await started(t);
  const cases: [tag: string, value: unknown, fc: number][] = [
    ['plain', 65535, 6],
    ['level', -1.3, 6],
    ['total', -123456, 16],
    ['big', 2n ** 63n + 1n, 16],
    ['bit', true, 22],
    ['bit', false, 22],
    ['swapped', true, 22],
    ['field', 9, 22],
    ['mode', 'auto', 6],
    ['recipe', 'AB12', 16],
    ['coil', true, 5],
    ['coil', false, 5],
  ];
  for (const [tag, value, fc] of cases) {
    const { outcome, readBack } = await put(tag, value);
    assert.deepEqual([outcome, readBack?.value, readBack?.quality], ['done', value, GOOD], tag);
    assert.equal(writes().at(-1)?.[1], fc, tag);
  }
  assert.equal(device.registers.get(11), 0xfff3);
  assert.deepEqual([device.registers.get(12), device.registers.get(13)], [0x1dc0, 0xfffe]);
  assert.equal(device.registers.get(22), (22 & 0xff0f) | 0x90, 'the other bits keep their values');
});

test('devices that know only the multiple functions, or write and read in one', async (t) => {
  const multiple = await started(t, { writeMultiple: true });
  assert.equal((await multiple.put('plain', 7)).readBack?.value, 7);
  assert.equal((await multiple.put('coil', true)).readBack?.value, true);
  assert.deepEqual(
    multiple.writes().map((request) => request[1]),
    [16, 15],
  );
  const both = await started(t, { readWrite: true });
  const before = both.device.requests.length;
  assert.deepEqual(await both.put('total', 99), {
    outcome: 'done',
    readBack: { tag: 'total', type: 'i', value: 99, quality: GOOD },
  });
  assert.deepEqual(
    both.device.requests.slice(before).map((request) => request[1]),
    [23],
  );
});

test('what must not be written is rejected, and nothing is sent', async (t) => {
  const { put, writes } = await started(t);
  const cases: [tag: string, value: unknown, code: string, detail?: RegExp][] = [
    ['fixed', 1, 'not-writable'],
    ['nothing', 1, 'unknown-tag'],
    ['plain', 65536, 'value', /from 0 to 65535/],
    ['plain', -1, 'value', /from 0 to 65535/],
    ['plain', '5', 'value', /whole number/],
    ['plain', null, 'value', /whole number/],
    ['level', 80.6, 'value', /from -10 to 80.5/],
    ['level', Number.NaN, 'value', /from -10/],
    ['mode', 'hand', 'value', /one of off, auto/],
    ['recipe', 'TOO LONG', 'value', /longer than 6/],
    ['coil', 1, 'value', /true or false/],
    ['field', 16, 'value', /from 0 to 15/],
  ];
  for (const [tag, value, code, detail] of cases) {
    const result = await put(tag, value);
    assert.deepEqual([result.outcome, result.code], ['rejected', code], `${tag} ${value}`);
    if (detail) assert.match(result.detail ?? '', detail);
  }
  assert.deepEqual(await put('plain', 1, () => false), { outcome: 'expired' });
  assert.deepEqual(writes(), []);
});

test('a device that refuses says so', async (t) => {
  const { device, put } = await started(t);
  device.behave = (asked) => [asked[1] === 6 ? rtu([1, 0x86, 3]) : device.answer(asked)];
  assert.deepEqual(await put('plain', 5), { outcome: 'rejected', code: 'exception-3' });
});

test('a write without an answer is unknown, read back, and not sent again', async (t) => {
  const { device, put, writes } = await started(t);
  // The device carries it out and its answer gets lost.
  device.behave = (asked) => {
    const answer = device.answer(asked);
    return asked[1] === 6 ? [] : [answer];
  };
  const result = await put('plain', 5);
  assert.deepEqual([result.outcome, result.code, result.readBack?.value], ['unknown', 'device.timeout', 5]);
  assert.equal(writes().length, 1);
});

test('without a connection nothing is sent, then or later', async (t) => {
  const { device, driver, put, writes } = await started(t);
  device.close();
  await until('the loss seen', () => driver.status().link.state !== 'open');
  assert.deepEqual(await put('plain', 5), { outcome: 'rejected', code: 'not-connected' });
  assert.deepEqual(writes(), []);
});

test('a write goes before the reads that wait', async (t) => {
  const { device, put, driver } = await started(t);
  const order: number[] = [];
  device.behave = (asked) => {
    order.push(asked[1] as number);
    return [5, device.answer(asked)];
  };
  // Each write is followed by its read-back; the second write overtakes the first one's.
  await Promise.all([put('plain', 1), put('plain', 2)]);
  assert.deepEqual(order, [6, 6, 3, 3]);
  assert.equal(driver.status().link.connects, 1);
});
