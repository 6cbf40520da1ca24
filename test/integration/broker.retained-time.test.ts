import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPlant, type Plant, RawClient } from '../helpers/broker.js';

const WITH_TIME = { limits: { retainedTime: true } };
const KEPT = { clean: false, properties: { sessionExpiryInterval: 60 } };

async function publish(t: Parameters<typeof RawClient.connect>[0], { port }: Plant, properties: object): Promise<void> {
  const raw = await RawClient.connect(t, port, 'publisher', { version: 5 });
  raw.publish('plant/a', 'value', 1, 1, { retain: true, properties });
  await raw.next('puback');
}

/** The properties that a new subscriber finds with the retained value. */
async function found(t: Parameters<typeof RawClient.connect>[0], { port }: Plant, id: string, options: object) {
  const raw = await RawClient.connect(t, port, id, options);
  raw.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'plant/#', qos: 1 }] });
  const { retain, properties, payload } = await raw.next('publish');
  assert.deepEqual([retain, String(payload)], [true, 'value']);
  return { raw, properties };
}

test('where it is configured, a retained value says since when it stands, also after a restart', async (t) => {
  const plant = await openPlant(t, WITH_TIME);
  const before = Date.now();
  await publish(t, plant, { contentType: 'text/plain', userProperties: { unit: 'bar' } });
  const after = Date.now();
  const first = await found(t, plant, 'a', { version: 5 });
  const { 'holdfast-stored-at': storedAt, ...others } = first.properties.userProperties;
  assert.ok(Number(storedAt) >= before && Number(storedAt) <= after, storedAt);
  assert.deepEqual([others.unit, first.properties.contentType], ['bar', 'text/plain']);
  await plant.restart(WITH_TIME);
  const kept = await found(t, plant, 'b', { version: 5, ...KEPT });
  assert.equal(kept.properties.userProperties['holdfast-stored-at'], storedAt);
  assert.equal((await found(t, plant, 'c', { version: 4 })).properties, undefined);
});

test('a live message has no such time, and by default nothing is added', async (t) => {
  const plant = await openPlant(t, WITH_TIME);
  await publish(t, plant, {});
  const { raw } = await found(t, plant, 'a', { version: 5 });
  await publish(t, plant, {});
  const live = await raw.next('publish');
  assert.deepEqual([live.retain, live.properties], [false, undefined]);
  const plain = await openPlant(t);
  await publish(t, plain, {});
  assert.equal((await found(t, plain, 'a', { version: 5 })).properties, undefined);
});
