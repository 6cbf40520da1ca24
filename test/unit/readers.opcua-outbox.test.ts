import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DataValue, StatusCode } from 'node-opcua-client';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import type { SampleBatch } from '../../src/readers/driver.js';
import { OpcuaDevice } from '../../src/readers/opcua/device.js';
import { until } from '../helpers/wait.js';

test('while the spool takes nothing, what a server pushes is bounded, and what was let go is a gap with its count', async () => {
  const batches: SampleBatch[] = [];
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const group = { everyMs: 100, samplingMs: 0, mode: 'subscribe', queue: 1, heartbeatMs: 60_000 } as const;
  const device = new OpcuaDevice(
    { asset: 'press', groups: [{ ...group, tags: [{ name: 'n', node: 'i=1' }] }] },
    {
      emit: async (batch) => {
        await gate;
        batches.push(batch);
      },
      status: () => {},
      clock: systemClock,
      log: silentLog,
      signal: new AbortController().signal,
    },
  );
  const [tag] = device.tags;
  const from = Date.now() - 100_000;
  const value = (n: number) =>
    ({
      statusCode: { name: 'Good', value: 0, hasOverflowBit: false } as unknown as StatusCode,
      value: { dataType: 7, arrayType: 0, value: n },
      sourceTimestamp: new Date(from + n),
    }) as unknown as DataValue;
  const SENT = 25_000;
  for (let n = 1; n <= SENT; n++) device.take([{ tag: tag!, value: value(n) }]);
  open();
  await device.idle();
  const kept = batches.length;
  assert.ok(kept < SENT);
  device.take([{ tag: tag!, value: value(SENT + 1) }]);
  await until('the next one', () => batches.length > kept);
  const { gap } = batches.at(-1) as SampleBatch;
  assert.deepEqual([gap?.reason, gap?.missed], ['polls-skipped', SENT - kept]);
});
