import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPlant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

test('what has expired is thrown away: retained, and in the queue of a client that is away', async (t) => {
  const plant = await openPlant(t, { limits: { expirySweepMs: 50 } });
  const kept = { version: 5, clean: false, properties: { sessionExpiryInterval: 600 } };
  const away = await RawClient.connect(t, plant.port, 'away', kept);
  away.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '#', qos: 1 }] });
  await away.next('suback');
  away.send({ cmd: 'disconnect' });
  await away.gone();
  const publisher = await RawClient.connect(t, plant.port, 'publisher', { version: 5 });
  const expiring = { retain: true, properties: { messageExpiryInterval: 3 } };
  for (let id = 1; id <= 5; id++) publisher.publish(`plant/${id}`, 'short', 1, id, expiring);
  publisher.publish('plant/kept', 'long', 1, 6, { retain: true, properties: { messageExpiryInterval: 600 } });
  publisher.publish('plant/ever', 'ever', 1, 7, { retain: true });
  for (let n = 0; n < 7; n++) await publisher.next('puback');
  assert.deepEqual([plant.broker.status().queuedRows, plant.broker.status().retained], [7, 7]);
  await until('they are gone', () => plant.broker.status().queuedRows === 2 && plant.broker.status().retained === 2);
  assert.equal(plant.broker.status().dropped.expired, 5);
  await plant.restart();
  assert.deepEqual([plant.broker.status().queuedRows, plant.broker.status().retained], [2, 2], 'also on disk');
  assert.equal((await plant.rows()).length, 7, 'the spool keeps what goes upstream');
  const back = await RawClient.connect(t, plant.port, 'away', kept);
  for (const text of ['long', 'ever']) assert.equal(String((await back.next('publish')).payload), text);
});
