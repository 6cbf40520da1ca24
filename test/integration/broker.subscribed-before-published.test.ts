import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPlant, RawClient } from '../helpers/broker.js';

const ROUNDS = 100;

for (const kept of [false, true]) {
  test(`whoever subscribes before another client publishes gets the message, once (kept: ${kept})`, async (t) => {
    const plant = await openPlant(t);
    const options = { version: 5, clean: !kept, properties: kept ? { sessionExpiryInterval: 60 } : undefined };
    const subscriber = await RawClient.connect(t, plant.port, 'subscriber', options);
    const publisher = await RawClient.connect(t, plant.port, 'publisher', { version: 5 });
    for (let round = 1; round <= ROUNDS; round++) {
      const topic = `plant/${round}`;
      // The overlapping filters would bring a second copy if the newer one were served on its own.
      const subscriptions = [topic, `${topic}/#`].map((filter) => ({ topic: filter, qos: 1 }));
      subscriber.send({ cmd: 'subscribe', messageId: round, subscriptions });
      publisher.publish(topic, String(round), 1, round);
      await publisher.next('puback');
      await subscriber.next('suback');
      const { payload, messageId } = await subscriber.next('publish');
      assert.equal(String(payload), String(round));
      subscriber.send({ cmd: 'puback', messageId });
    }
    await subscriber.ping();
    assert.deepEqual(subscriber.packets, []);
  });
}
