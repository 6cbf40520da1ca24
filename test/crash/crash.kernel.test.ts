/** The same promise on a real kernel and a real file system, which know ways of losing data that no model knows. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Random } from '../helpers/random.js';
import { until } from '../helpers/wait.js';
import { idOf } from './ledger.js';
import { LoopDisk, skipWithoutLoop } from './loop-disk.js';
import { Plant, type Variant } from './plant.js';
import { effort, seed } from './recorded.js';
import { startAt } from './start-up.js';

const options = { skip: skipWithoutLoop };
const CUTS = 4 * effort;
/** Of a negative control that depends on what the kernel happens to have written. */
const ATTEMPTS_MAX = 5;
/** How long the load lasts before a cut, at most. */
const LOAD_MS_MAX = 250;
/** So that the file needs new sectors soon. */
const PAD_BYTES = 3000;

/** Messages that were acknowledged and are neither in the spool nor in the cloud; all of them if it does not open. */
function lostOn(disk: LoopDisk, plant: Plant): number[] {
  const found = startAt(join(disk.folder, 'data/spool.db'));
  if ('broken' in found) return [...plant.acknowledgedIds];
  const spooled = new Set(found.rows.map(({ payload }) => idOf(payload)));
  return [...plant.acknowledgedIds].filter((id) => !spooled.has(id) && !plant.inCloud.ids.has(id));
}

/**
 * With real power the process could not live on to acknowledge an fsync that the file system lets go when it is stopped:
 * so the process stands still first.
 */
async function freeze(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  await until('the gateway stands still', () =>
    readdirSync(`/proc/${pid}/task`).every((task) =>
      /\) [Tt] /.test(readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8')),
    ),
  );
}

async function cutUnderLoad(t: TestContext, cuts: number, variants: readonly Variant[]): Promise<number[]> {
  const disk = LoopDisk.open(t);
  const plant = await Plant.open(t, { folder: disk.folder, variants });
  const random = new Random(seed);
  const lost: number[] = [];
  try {
    for (let cut = 0; cut < cuts; cut++) {
      await plant.cloud.set({ absent: cut % 2 === 0 });
      await plant.start();
      const stop = new AbortController();
      const before = plant.acknowledgedIds.size;
      plant.publishUntil(await plant.client({ reconnectPeriod: 0 }), stop.signal);
      await until('the load has begun', () => plant.acknowledgedIds.size > before);
      await delay(random.int(0, LOAD_MS_MAX));
      await freeze(plant.pid);
      stop.abort();
      await plant.kill();
      await disk.cut();
      lost.push(...lostOn(disk, plant));
      for (const id of lost) plant.acknowledgedIds.delete(id);
    }
    t.diagnostic(`seed ${seed}: ${cuts} cuts, ${plant.acknowledgedIds.size} acknowledged, ${lost.length} lost`);
    return lost;
  } finally {
    await plant.kill();
    await disk.close();
  }
}

/** The device fails writes for a while; the gateway ends, is started again on a device that works, and the power goes. */
async function failWrites(t: TestContext, variants: readonly Variant[]): Promise<number[]> {
  const disk = LoopDisk.open(t);
  const plant = await Plant.open(t, { folder: disk.folder, variants, env: { RECORD_DIR: disk.folder } });
  try {
    await plant.cloud.set({ absent: true });
    await plant.start();
    const stop = new AbortController();
    plant.publishUntil(await plant.client(), stop.signal, { window: 1, padBytes: PAD_BYTES });
    await until('some load', () => plant.acknowledgedIds.size > 20);
    disk.failWrites(true);
    assert.equal(await plant.ended(), 74);
    disk.failWrites(false);
    const before = plant.acknowledgedIds.size;
    await plant.start();
    await until('more load', () => plant.acknowledgedIds.size > before + 30);
    await freeze(plant.pid);
    stop.abort();
    await plant.kill();
    await disk.cut();
    const lost = lostOn(disk, plant);
    t.diagnostic(`${plant.acknowledgedIds.size} acknowledged, ${before} before the failure; ${lost.length} lost`);
    return lost;
  } finally {
    await plant.kill();
    await disk.close();
  }
}

test('ext4 is stopped dead under load, again and again', options, async (t) => {
  assert.deepEqual(await cutUnderLoad(t, CUTS, []), []);
});

test('negative control: ext4 is stopped dead under synchronous=OFF', options, async (t) => {
  assert.notDeepEqual(await cutUnderLoad(t, 1, ['sync-off']), []);
});

test('the device fails writes for a while', options, async (t) => {
  assert.deepEqual(await failWrites(t, []), []);
});

test('the device fails writes for a while, with checkpoints all the time', options, async (t) => {
  assert.deepEqual(await failWrites(t, ['small-log']), []);
});

test('negative control: the device failed writes, and the files are taken as they are', options, async (t) => {
  // A write that failed can be made good by the next one to the same page; most are not.
  const lost: number[] = [];
  for (let attempt = 0; attempt < ATTEMPTS_MAX && lost.length === 0; attempt++)
    lost.push(...(await failWrites(t, ['plain-restart'])));
  assert.notDeepEqual(lost, []);
});
