/** Runs a scenario on a gateway under the recorder, and checks what was recorded. */
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { tempDir } from '../helpers/tmp.js';
import { Checker, type CheckOptions, type Report } from './checker.js';
import type { Image } from './disk.js';
import { buildRecorder } from './native.js';
import { Plant, type PlantOptions } from './plant.js';

export type Scenario = (plant: Plant) => Promise<void>;

/** `disk`: what the gateway's folder holds before. Returns the file that holds the record. */
export async function record(t: TestContext, options: PlantOptions, disk: Image, scenario: Scenario): Promise<string> {
  const dir = tempDir(t);
  const folder = join(dir, 'device');
  mkdirSync(folder);
  for (const [name, bytes] of disk) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), bytes);
  }
  const log = join(dir, 'recording');
  const recorder = { LD_PRELOAD: buildRecorder(t), RECORD_DIR: folder, RECORD_LOG: log };
  const plant = await Plant.open(t, { ...options, folder, env: { ...options.env, ...recorder } });
  await scenario(plant);
  await plant.kill();
  return log;
}

/** From the environment, so that `npm run powercut` can look longer and a failure can be run again. */
export const seed = Number(process.env.HOLDFAST_CUT_SEED ?? 1);
export const effort = Number(process.env.HOLDFAST_CUT_EFFORT ?? 1);

/** Checks a record and says in the test's output what was looked at. */
export async function recordAndCheck(
  t: TestContext,
  options: PlantOptions & Partial<CheckOptions> & { readonly images: number },
  scenario: Scenario,
): Promise<Report> {
  const log = await record(t, options, new Map(), scenario);
  const checker = new Checker({ seed, ...options, images: options.images * effort });
  return told(t, () => checker.check(log));
}

/** The same, and nothing may be found; a record in which something was is kept, to be looked at again. */
export async function checkSound(
  t: TestContext,
  options: PlantOptions & { readonly images: number },
  scenario: Scenario,
): Promise<Report> {
  const log = await record(t, options, new Map(), scenario);
  const checker = new Checker({ seed, images: options.images * effort });
  const report = told(t, () => checker.check(log));
  if (report.breaches.size === 0) {
    assert.ok(report.acknowledged > 0 && report.images > options.images / 2, 'there was something to look at');
    return report;
  }
  const kept = join(tmpdir(), `holdfast-${process.pid}-${Date.now()}.recording`);
  copyFileSync(log, kept);
  const images = options.images * effort;
  return assert.fail(`look again: node dist/test/crash/recheck.js ${kept} ${seed} ${images}`);
}

export function told(t: TestContext, check: () => Report): Report {
  const before = performance.now();
  const report = check();
  const { cuts, images, acknowledged, delivered, breaches } = report;
  const seconds = (performance.now() - before) / 1000;
  t.diagnostic(
    `seed ${seed}: ${acknowledged} acknowledged, ${delivered} delivered, ${cuts} cuts, ${images} disks in ${seconds.toFixed(1)} s`,
  );
  for (const [breach, { count, first }] of breaches) t.diagnostic(`${breach}: ${count} times, first at ${first}`);
  return report;
}
