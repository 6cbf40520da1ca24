import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import { GOOD } from '../../src/model/reading.js';
import type { Sample } from '../../src/readers/driver.js';
import type { Endpoint } from '../../src/readers/modbus/endpoint.js';
import { ModbusDriver } from '../../src/readers/modbus/modbus-driver.js';
import { Random } from '../helpers/random.js';
import { until } from '../helpers/wait.js';
import { FakeRtu, type RtuBehaviour, rtu } from './readers.fake-rtu.js';

const QUESTIONS = 500;
const TIMEOUT_MS = 30;

/** Every register changes with every request, so that an old answer cannot pass for a new one. */
const held = (address: number, n: number) => (address * 7919 + n) & 0xffff;

/** A device without transaction ids that does whatever a device in order can do, and the values taken from it. */
export async function rtuChaos(
  t: TestContext,
  seed: number,
  endpointOf: (device: FakeRtu) => Endpoint | Promise<Endpoint> = ({ endpoint }) => endpoint,
): Promise<void> {
  const random = new Random(seed);
  const refusal = (asked: Buffer) => rtu([asked[0] as number, (asked[1] as number) | 0x80, random.int(1, 6)]);
  const lateMs = () => Math.round(TIMEOUT_MS * (1 + random.next() * 5));
  const misdeeds: RtuBehaviour[] = [
    () => [],
    (asked) => [lateMs(), device.answer(asked)],
    (asked) => [lateMs(), refusal(asked)],
    (asked) => [refusal(asked)],
    (asked) => [device.answer(asked).subarray(0, random.int(1, 6))],
    (asked) => [random.bytes(random.int(1, 30)), device.answer(asked)],
    (asked) => [...device.answer(asked)].map((byte) => Buffer.from([byte])),
    // A bit of it is wrong on the line.
    (asked) => {
      const answer = device.answer(asked);
      const at = random.int(0, answer.length - 1);
      answer[at] = (answer[at] as number) ^ (1 << random.int(0, 7));
      return [answer];
    },
  ];
  const device = await FakeRtu.listen(t, (asked, n) =>
    random.chance(0.3) ? random.pick(misdeeds)(asked, n) : [device.answer(asked)],
  );
  device.held = (address) => held(address, device.requests.length);
  const samples: (Sample & { readonly n: number })[] = [];
  const stop = new AbortController();
  const groups = [0, 1].map((g) => ({
    everyMs: 20 + g * 15,
    // Blocks of the same length, so that one's answer would pass for the other's.
    tags: [0, 1, 200, 201].map((n) => ({ name: `r${g * 1000 + n}`, at: `hr:${g * 1000 + n}`, type: 'u16' as const })),
  }));
  const driver = new ModbusDriver(
    {
      endpoint: await endpointOf(device),
      connectTimeoutMs: 10_000,
      timeoutMs: TIMEOUT_MS,
      retries: 1,
      minGapMs: 0,
      backoff: { minMs: 5, maxMs: 20 },
      devices: [1, 2].map((unit) => ({
        asset: `unit-${unit}`,
        unit,
        order: 'ABCD' as const,
        addressing: 'pdu0' as const,
        groups,
      })),
    },
    {
      emit: async (batch) => {
        const n = device.requests.length;
        samples.push(...batch.samples.map((sample) => ({ ...sample, n })));
      },
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
  await until('many questions', () => device.requests.length >= QUESTIONS, 60_000);
  device.behave = (asked) => [device.answer(asked)];
  await until('both healthy', () => driver.status().devices.every(({ state }) => state === 'online'), 30_000);
  for (const { tag, value, quality, n } of samples)
    assert.equal(value, quality === GOOD ? held(Number(tag.slice(1)), n) : null, tag);
  assert.ok(samples.filter(({ quality }) => quality === GOOD).length > 200);
  assert.ok(samples.some(({ quality }) => quality !== GOOD));
}
