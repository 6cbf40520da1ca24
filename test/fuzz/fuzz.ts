/** `node dist/test/fuzz/fuzz.js --seconds N [--seed S]`: the same as in the test, for longer and with new conversations. */
import { test } from 'node:test';
import { parseArgs } from 'node:util';
import { fuzzBroker } from './fuzz-broker.js';

const { values } = parseArgs({ options: { seconds: { type: 'string' }, seed: { type: 'string' } } });
const seconds = Number(values.seconds ?? 60);
const seed = Number(values.seed ?? Date.now() % 2 ** 31);

test(`mutated conversations for ${seconds} s (--seed ${seed})`, { timeout: 1000 * (seconds + 120) }, async (t) => {
  const end = performance.now() + 1000 * seconds;
  const rounds = await fuzzBroker(t, seed, () => performance.now() < end);
  t.diagnostic(`${rounds} conversations`);
});
