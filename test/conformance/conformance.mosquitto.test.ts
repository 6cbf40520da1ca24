import { test } from 'node:test';
import { openMosquitto } from '../helpers/mosquitto.js';
import { peer } from '../helpers/peers.js';
import { tryClauses } from './run.js';

const mosquitto = peer('mosquitto');

test('Mosquitto keeps them too, but for what is known', {
  concurrency: 16,
  skip: mosquitto ? false : 'mosquitto is not installed',
}, async (t) => {
  const url = await openMosquitto(t, mosquitto as string);
  await tryClauses(t, Number(new URL(url).port), (clause) => clause.mosquitto);
});
