import { test } from 'node:test';
import { openPlant } from '../helpers/broker.js';
import { tryClauses } from './run.js';

test('Holdfast keeps the clauses of MQTT 3.1.1 and 5', { concurrency: 16 }, async (t) => {
  const plant = await openPlant(t);
  await tryClauses(t, plant.port);
});
