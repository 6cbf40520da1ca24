import { test } from 'node:test';
import { fuzzBroker } from './fuzz-broker.js';

const SEED = 20261130;
const ROUNDS = 1_500;

test(`mutated conversations end connections and nothing else (seed ${SEED})`, async (t) => {
  await fuzzBroker(t, SEED, (round) => round < ROUNDS);
});
