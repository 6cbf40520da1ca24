import { test } from 'node:test';
import { rtuChaos } from './readers.rtu-chaos.js';

for (const seed of [1, 2])
  test(`RTU, seed ${seed}: every good value is what the device held there when it was last asked`, (t) =>
    rtuChaos(t, seed));
