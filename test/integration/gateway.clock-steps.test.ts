import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type Clock, systemClock } from '../../src/lib/clock.js';
import type { Millis } from '../../src/model/ids.js';
import type { BatchRow } from '../../src/wire/batch.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { openGateway, plantClient } from '../helpers/gateway.js';
import { tempDir } from '../helpers/tmp.js';
import { openCloud } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

const DAY_MS = 86_400_000;

class SettableClock implements Clock {
  stepMs = 0;
  now = () => (systemClock.now() + this.stepMs) as Millis;
  mono = () => systemClock.mono();
}

async function openHistorian(t: TestContext) {
  const rows: BatchRow[] = [];
  const { cloud } = await openCloud(t, { onPublish: ({ payload }) => rows.push(...decodeBatch(payload).rows) });
  const values = () => rows.flatMap((row) => (row.type !== 'g' && row.type !== 'p' ? [row.value] : []));
  const gaps = (reason: string) =>
    rows.flatMap((row) => (row.type === 'g' && row.gap.reason === reason ? [{ asset: row.asset, ...row.gap }] : []));
  return { cloud, rows, values, gaps };
}

const reading = (value: number) => JSON.stringify({ ts: 1_790_000_000_000 + value, value });

test('the clock steps by two weeks forward and back while the cloud is away: order and rows stay, each step is a record', async (t) => {
  const clock = new SettableClock();
  const { cloud, rows, values, gaps } = await openHistorian(t);
  cloud.set({ absent: true });
  const gateway = await openGateway(t, tempDir(t), { upstreamPort: cloud.port, clock });
  const hmi = await plantClient(t, gateway, 'hmi');
  await hmi.subscribeAsync('plant/press/limit', { qos: 1 });
  await hmi.endAsync();
  const plc = await plantClient(t, gateway);
  let next = 0;
  const publish = async () => {
    for (const last = next + 20; next < last; next++)
      await plc.publishAsync('plant/press/count', reading(next), { qos: 1 });
  };
  await plc.publishAsync('plant/press/limit', reading(500), { qos: 1, retain: true });
  await publish();
  for (const [n, step] of [14 * DAY_MS, -28 * DAY_MS, 14 * DAY_MS].entries()) {
    clock.stepMs += step;
    await until('seen', async () => (await gateway.status()).clock.steps === n + 1);
    assert.ok(Math.abs(((await gateway.status()).clock.lastStepMs ?? 0) - step) < 1_000);
    await publish();
  }
  const { spool } = await gateway.status();
  assert.equal(spool.rows, 80 + 1 + 3, 'nothing was deleted');
  assert.ok(spool.balanced);

  cloud.set({ absent: false });
  await until('all arrived', () => values().length === 81 && gaps('clock-step').length === 3);
  assert.deepEqual(
    values().filter((value) => value !== 500),
    Array.from({ length: 80 }, (_, n) => n),
    'in the order in which they were taken',
  );
  assert.deepEqual(
    rows.map(({ seq }) => seq),
    rows.map(({ seq }) => seq).toSorted((a, b) => a - b),
  );
  for (const { asset, from, to, count } of gaps('clock-step')) {
    assert.equal(asset, 'line-1');
    assert.equal(count, 0);
    assert.ok(Math.abs(to - from - 14 * DAY_MS) < 1_000 || Math.abs(to - from - 28 * DAY_MS) < 1_000);
  }
});

test('what a client asked to be kept for an hour outlives a clock that is set two weeks ahead', async (t) => {
  const clock = new SettableClock();
  const gateway = await openGateway(t, tempDir(t), { clock });
  const plc = await plantClient(t, gateway, 'plc', 5);
  const properties = { messageExpiryInterval: 3_600 };
  await plc.publishAsync('local/recipe', 'seven', { qos: 1, retain: true, properties });
  clock.stepMs = 14 * DAY_MS;
  await until('seen', async () => (await gateway.status()).clock.steps === 1);
  const hmi = await plantClient(t, gateway, 'hmi', 5);
  const seen: string[] = [];
  hmi.on('message', (_, payload) => seen.push(payload.toString()));
  await hmi.subscribeAsync('local/#', { qos: 1 });
  await until('the retained value', () => seen.length === 1);
});

test('a boot without network time after a kill: the clock is behind, rows stay, and both are on record', async (t) => {
  const dir = tempDir(t);
  const { cloud, values, gaps } = await openHistorian(t);
  cloud.set({ absent: true });
  const first = await openGateway(t, dir, { upstreamPort: cloud.port });
  const plc = await plantClient(t, first);
  await plc.publishAsync('plant/press/count', reading(1), { qos: 1 });
  await first.close(AbortSignal.abort());

  const clock = new SettableClock();
  clock.stepMs = -14 * DAY_MS;
  const again = await openGateway(t, dir, { upstreamPort: cloud.port, clock });
  await (await plantClient(t, again, 'plc-2')).publishAsync('plant/press/count', reading(2), { qos: 1 });
  clock.stepMs = 0;
  await until('network time', async () => (await again.status()).clock.steps === 2);
  cloud.set({ absent: false });
  await until('both', () => values().length === 2 && gaps('clock-step').length === 2);
  assert.deepEqual(values(), [1, 2]);
  const details = gaps('clock-step').map(({ detail }) => detail ?? '');
  assert.match(details[0] ?? '', /^the clock went back by 12095\d\d/);
  assert.match(details[1] ?? '', /^the clock went forward by 1209[56]\d\d/);
});
