/** A checker that finds nothing proves nothing: each of these gateways, or devices, loses messages, and it must say so. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';
import type { CheckOptions, Report } from './checker.js';
import type { Breach } from './invariants.js';
import { skipWithoutGcc } from './native.js';
import type { Plant, PlantOptions } from './plant.js';
import { recordAndCheck } from './recorded.js';

const options = { skip: skipWithoutGcc };
/** Besides those on which all or nothing survived, which show most defects. */
const IMAGES = 100;
/** Long enough that messages come in while an fsync is on its way. */
const SLOW_DISK = { RECORD_SYNC_US: '4000' };

function run(t: TestContext, more: PlantOptions & Partial<CheckOptions>, scenario = load): Promise<Report> {
  return recordAndCheck(t, { images: IMAGES, ...more }, scenario);
}

async function load(plant: Plant): Promise<void> {
  await plant.cloud.set({ absent: true });
  await plant.start();
  await plant.leaveSession();
  await plant.publish(await plant.client(), { count: 18 });
}

function assertFound(report: Report, ...breaches: Breach[]): void {
  for (const breach of breaches) assert.ok(report.breaches.has(breach), `the checker finds: ${breach}`);
}

test('synchronous=NORMAL', options, async (t) => {
  const report = await run(t, { variants: ['sync-normal'] });
  assertFound(report, 'acknowledged message lost', 'retained message lost', 'queued message lost');
});

test('synchronous=OFF, with checkpoints', options, async (t) => {
  const report = await run(t, { variants: ['sync-off', 'small-log'] });
  assertFound(report, 'acknowledged message lost', 'unreadable');
});

test('a device that ignores flush', options, async (t) => {
  assertFound(await run(t, { ignoresFlush: true }), 'acknowledged message lost', 'session lost');
});

test('PUBACK before the commit', options, async (t) => {
  assertFound(await run(t, { variants: ['ack-before-commit'] }), 'acknowledged message lost');
});

test('PUBREC before the commit, QoS 1 in order', options, async (t) => {
  const variants = ['pubrec-before-commit'] as const;
  const clean = await run(t, { variants });
  assert.deepEqual([...clean.breaches], [], 'QoS 1 is in order');
  const report = await run(t, { variants }, async (plant) => {
    await plant.cloud.set({ absent: true });
    await plant.start();
    const client = await plant.client({ clientId: 'press', clean: false });
    await plant.publish(client, { count: 18, qos: 2 });
  });
  assertFound(report, 'acknowledged message lost', 'packet id wrong');
});

test('a QoS 2 message that comes again and is stored again', options, async (t) => {
  const report = await run(t, { variants: ['guard-ignored'] }, async (plant) => {
    await plant.cloud.set({ absent: true });
    await plant.start();
    const press = await RawClient.connect(t, plant.port, 'press', { clean: false });
    for (const dup of [false, true]) {
      press.publish('plant/press/force', '{"ts":1790000000001,"value":1}', 2, 5, { dup });
      await press.next('pubrec');
    }
  });
  assertFound(report, 'stored twice');
});

test('an acknowledgement on an fsync that began before the message was written', options, async (t) => {
  assertFound(await run(t, { variants: ['ack-on-any-sync'], env: SLOW_DISK }), 'acknowledged message lost');
  const right = await run(t, { variants: ['ack-on-later-sync'], env: SLOW_DISK });
  assert.equal(right.breaches.has('acknowledged message lost'), false, 'an fsync that began after it is good enough');
});

test('a row that is deleted when its batch was sent', options, async (t) => {
  const report = await run(t, { variants: ['delete-when-sent'] }, async (plant) => {
    await plant.cloud.set({ ackDelayMs: 300 });
    await plant.start();
    await plant.publish(await plant.client(), { count: 18 });
    await plant.drained();
  });
  assertFound(report, 'acknowledged message lost');
});

test('a seq that is used again after a drain', options, async (t) => {
  const report = await run(t, { variants: ['seq-starts-over'] }, async (plant) => {
    await plant.start();
    const client = await plant.client();
    await plant.publish(client, { count: 16 });
    await plant.drained();
    await plant.stop();
    await plant.start();
    const before = plant.inCloud.rows;
    await plant.publish(client, { count: 8 });
    await until('more in the cloud', () => plant.inCloud.rows > before);
  });
  assertFound(report, 'seq reused', 'wire');
});

test('a seq that is used again after a loss', options, async (t) => {
  const report = await run(t, { variants: ['sync-normal'] }, async (plant) => {
    await plant.start();
    await plant.publish(await plant.client(), { count: 18 });
    await plant.drained();
  });
  assertFound(report, 'seq reused');
});
