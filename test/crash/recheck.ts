/** Checks a kept record again: `node dist/test/crash/recheck.js RECORDING SEED IMAGES`. */
import { Checker } from './checker.js';

const [recording, seed, images] = process.argv.slice(2);
if (!recording || !seed || !images) {
  console.error('usage: recheck.js RECORDING SEED IMAGES');
  process.exit(64);
}
const { cuts, images: disks, breaches } = new Checker({ seed: Number(seed), images: Number(images) }).check(recording);
console.log(`${cuts} cuts, ${disks} disks`);
for (const [breach, { count, first }] of breaches) console.log(`${breach}: ${count} times, first at ${first}`);
process.exitCode = breaches.size > 0 ? 1 : 0;
