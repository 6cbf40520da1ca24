import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Checker, type Report } from './checker.js';
import { skipWithoutGcc } from './native.js';
import type { Plant, Variant } from './plant.js';
import { checkSound, effort, record, seed, told } from './recorded.js';
import { type RecordedEvent, readRecording } from './recording.js';

const options = { skip: skipWithoutGcc };
const IMAGES = 150;
const EXIT_IO = 74;
/** Three come before it: two when the file is made, and one when it is marked as open. */
const CLOSING_FSYNC = 'spool.db:4';
/** First bytes of PUBACK and PUBREC. */
const ACKNOWLEDGEMENTS = new Set([0x40, 0x50]);

/**
 * One fsync fails, once; the gateway is started again, takes more, and the power goes. `life`: what the first gateway did
 * after the failure. It writes nothing, so what it still acknowledges must have been committed before, or is found lost.
 */
async function failOnce(
  t: TestContext,
  fsync: string,
  variants: readonly Variant[],
): Promise<Report & { life: RecordedEvent[] }> {
  const log = await record(t, { variants }, new Map(), async (plant: Plant) => {
    await plant.cloud.set({ absent: true });
    await plant.start({ RECORD_EIO: fsync });
    await plant.leaveSession();
    const done = plant.publish(await plant.client(), { count: 40 });
    assert.equal(await plant.ended(), EXIT_IO);
    await plant.start();
    await done;
  });
  const events = readRecording(log);
  const failed = events.findIndex(({ kind }) => kind === 'sync-failed');
  assert.ok(failed > 0, 'an fsync has failed');
  const rest = events.slice(failed + 1);
  const life = rest.slice(
    0,
    rest.findIndex(({ kind }) => kind === 'start'),
  );
  assert.equal(
    life.some((event) => event.kind === 'write'),
    false,
    'nothing is written any more',
  );
  const checker = new Checker({ seed, images: IMAGES * effort });
  return { ...told(t, () => checker.check(log)), life };
}

function isAcknowledgement(event: RecordedEvent): boolean {
  return event.kind === 'sent' && ACKNOWLEDGEMENTS.has(event.data[0] as number);
}

for (const at of [14, 19]) {
  test(`fsync ${at} of the log fails once`, options, async (t) => {
    const report = await failOnce(t, `-wal:${at}`, []);
    assert.deepEqual([...report.breaches], []);
    assert.deepEqual(report.life.filter(isAcknowledgement), [], 'nothing is acknowledged any more');
  });
}

for (const at of [6, 8]) {
  test(`a checkpoint fails once, fsync ${at} of the file`, options, async (t) => {
    const report = await failOnce(t, `spool.db:${at}`, ['small-log']);
    assert.deepEqual([...report.breaches], []);
  });
}

test('the checkpoint at an orderly end fails once', options, async (t) => {
  await checkSound(t, { images: 100 }, async (plant) => {
    await plant.cloud.set({ absent: true });
    await plant.start({ RECORD_EIO: CLOSING_FSYNC });
    await plant.publish(await plant.client(), { count: 12 });
    assert.equal(await plant.stop(), EXIT_IO);
    await plant.start();
    await plant.publish(await plant.client(), { count: 6 });
  });
});

test('the name of a new log is not synced, which SQLite does not look at', options, async (t) => {
  await checkSound(t, { images: 100, env: { RECORD_EIO: 'data:2' } }, async (plant) => {
    await plant.cloud.set({ absent: true });
    await plant.start();
    await plant.publish(await plant.client(), { count: 10 });
  });
});

test('negative control: a restart that takes the files as they are', options, async (t) => {
  const log = await failOnce(t, '-wal:14', ['plain-restart']);
  assert.ok(log.breaches.has('acknowledged message lost'));
  const file = await failOnce(t, 'spool.db:6', ['plain-restart', 'small-log']);
  assert.ok(file.breaches.has('unreadable') || file.breaches.has('acknowledged message lost'));
});
