import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MqttClient } from 'mqtt';
import { client, collect, openPlant, RawClient, type Received } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

const QOS = [0, 1, 2] as const;

/** Numbers of the payloads `n` of one QoS, which must be all of them in order. */
function numbers(received: readonly Received[], qos: number): number[] {
  return received.filter((message) => message.qos === qos).map(({ text }) => Number(text));
}

const persistent = (version: number, clientId: string) =>
  version === 5
    ? { protocolVersion: 5 as const, clientId, clean: false, properties: { sessionExpiryInterval: 600 } }
    : { protocolVersion: 4 as const, clientId, clean: false };

async function publishAll(
  publisher: MqttClient,
  count: number,
  qosOf: (n: number) => 0 | 1 | 2,
  retain: (n: number) => boolean,
) {
  const all = [];
  for (let n = 0; n < count; n++)
    all.push(publisher.publishAsync(`plant/${n % 7}`, String(n), { qos: qosOf(n), retain: retain(n) }));
  await Promise.all(all);
}

for (const version of [4, 5]) {
  for (const kind of ['clean', 'persistent'] as const) {
    test(`mixed QoS with retained messages all arrive, in order per QoS (${kind}, version ${version})`, async (t) => {
      const plant = await openPlant(t);
      const options = kind === 'clean' ? { protocolVersion: version as 4 } : persistent(version, 's');
      const subscriber = await client(t, plant, options);
      const received = collect(subscriber);
      await subscriber.subscribeAsync('plant/#', { qos: 2 });
      const publisher = await client(t, plant, { protocolVersion: version as 4 });
      await publishAll(
        publisher,
        3000,
        (n) => QOS[n % 3] as 0,
        (n) => n % 5 === 0,
      );
      await until('all are there', () => received.length >= 3000);
      for (const qos of QOS) {
        const expected = Array.from({ length: 1000 }, (_, i) => 3 * i + qos);
        assert.deepEqual(numbers(received, qos), expected);
      }
      assert.equal(received.length, 3000);
      assert.equal((await plant.rows()).length, 3000);
    });
  }

  test(`overlapping subscriptions give one copy with the highest QoS (version ${version})`, async (t) => {
    const plant = await openPlant(t);
    const subscriber = await client(t, plant, persistent(version, 's'));
    const received = collect(subscriber);
    await subscriber.subscribeAsync({ 'w/#': { qos: 0 }, 'w/+': { qos: 1 } });
    for (let n = 0; n < 50; n++) await plant.broker.publish([publication(`w/${n % 3}`, n)]);
    await until('all are there', () => received.length === 50);
    assert.deepEqual(
      numbers(received, 1),
      Array.from({ length: 50 }, (_, n) => n),
    );
  });

  test(`twenty reconnects on a busy topic lose nothing and turn nothing round (version ${version})`, async (t) => {
    const plant = await openPlant(t);
    const seen: number[] = [];
    let beforeConnack = 0;
    const first = await client(t, plant, persistent(version, 's'));
    await first.subscribeAsync('plant/#', { qos: 1 });
    await first.endAsync();
    let sent = 0;
    const feeder = setInterval(() => void plant.broker.publish([publication('plant/a', sent++)]), 0);
    t.after(() => clearInterval(feeder));
    /** One connection, until `enough`. */
    const visit = async (enough: (count: number) => boolean): Promise<void> => {
      const raw = await RawClient.open(t, plant.port, version);
      const properties = version === 5 ? { sessionExpiryInterval: 600 } : undefined;
      const connect = { cmd: 'connect', protocolId: 'MQTT', protocolVersion: version, clientId: 's', clean: false };
      raw.send({ ...connect, keepalive: 0, properties });
      let at = 0;
      await until('enough has come', () => {
        for (; at < raw.packets.length; at++) {
          const packet = raw.packets[at];
          if (packet?.cmd !== 'publish') continue;
          if (raw.packets[0]?.cmd !== 'connack') beforeConnack++;
          seen.push(Number(packet.payload));
          raw.send({ cmd: 'puback', messageId: packet.messageId });
        }
        return enough(at);
      });
      raw.socket.destroy();
    };
    for (let round = 0; round < 20; round++) await visit((count) => count > 10);
    clearInterval(feeder);
    const total = sent;
    await visit(() => new Set(seen).size === total);
    assert.equal(beforeConnack, 0);
    assert.deepEqual(
      [...new Set(seen)],
      Array.from({ length: total }, (_, n) => n),
      'first arrivals are in order',
    );
  });

  test(`a frozen subscriber stops nobody and gets everything later (version ${version})`, async (t) => {
    const plant = await openPlant(t, { limits: { socketBytesMax: 64 * 1024 } });
    const frozen = await RawClient.connect(t, plant.port, 'frozen', {
      version,
      clean: false,
      properties: version === 5 ? { sessionExpiryInterval: 600 } : undefined,
    });
    frozen.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'plant/#', qos: 1 }] });
    await frozen.next('suback');
    const brisk = await client(t, plant, { protocolVersion: version as 4 });
    const received = collect(brisk);
    await brisk.subscribeAsync('plant/#', { qos: 1 });
    frozen.socket.pause();
    const payload = Buffer.alloc(4096, 'x');
    const count = 5000;
    for (let n = 0; n < count; n += 100) {
      await plant.broker.publish(
        Array.from({ length: 100 }, () => ({
          message: { topic: 'plant/a', payload, qos: 1 as const, retain: false, props: null },
          identity: null,
        })),
      );
    }
    await until('the brisk one has all', () => received.length === count);
    assert.ok(plant.broker.status().queuedRows > 0, 'the frozen one has not');
    let got = 0;
    frozen.socket.on('data', () => {
      for (const packet of frozen.packets.splice(0)) {
        if (packet.cmd !== 'publish') continue;
        got++;
        frozen.send({ cmd: 'puback', messageId: packet.messageId });
      }
    });
    frozen.socket.resume();
    await until('the frozen one has all', () => got === count, 20_000);
    await until('nothing is left', () => plant.broker.status().queuedRows === 0);
  });

  test(`a persistent QoS 2 subscriber of a retained QoS 2 topic stays connected (version ${version})`, async (t) => {
    const plant = await openPlant(t);
    const publisher = await client(t, plant, { protocolVersion: version as 4 });
    await publisher.publishAsync('plant/a', 'kept', { qos: 2, retain: true });
    const subscriber = await client(t, plant, persistent(version, 's'));
    const received = collect(subscriber);
    await subscriber.subscribeAsync('plant/+', { qos: 2 });
    await publisher.publishAsync('plant/a', 'live', { qos: 2 });
    await until('both are there', () => received.length === 2);
    assert.deepEqual(
      received.map(({ text, qos, retain }) => [text, qos, retain]),
      [
        ['kept', 2, true],
        ['live', 2, false],
      ],
    );
    await until('both are finished', () => plant.broker.status().queuedRows === 0);
    assert.equal(subscriber.connected, true);
  });

  test(`QoS is never above what a wildcard subscription was granted (version ${version})`, async (t) => {
    const plant = await openPlant(t);
    const subscriber = await client(t, plant, { protocolVersion: version as 4 });
    const received = collect(subscriber);
    await subscriber.subscribeAsync({ 'a/+': { qos: 0 }, 'b/#': { qos: 1 } });
    const publisher = await client(t, plant);
    await publisher.publishAsync('a/x', '1', { qos: 2 });
    await publisher.publishAsync('b/x', '2', { qos: 2 });
    await until('both are there', () => received.length === 2);
    assert.deepEqual(
      received.map(({ qos }) => qos),
      [0, 1],
    );
  });
}

function publication(topic: string, n: number) {
  return {
    message: { topic, payload: Buffer.from(String(n)), qos: 1 as const, retain: false, props: null },
    identity: null,
  };
}
