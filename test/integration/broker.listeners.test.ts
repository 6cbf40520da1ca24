import assert from 'node:assert/strict';
import { get } from 'node:http';
import { test } from 'node:test';
import { WebSocket } from 'ws';
import { Broker } from '../../src/broker/broker.js';
import { systemClock } from '../../src/lib/clock.js';
import { HoldfastError } from '../../src/lib/errors.js';
import { silentLog } from '../../src/lib/log.js';
import { client, collect, openPlant } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

test('MQTT over WebSocket speaks to clients over TCP', async (t) => {
  const listeners = ['mqtt://127.0.0.1:0', 'ws://127.0.0.1:0'].map((url) => ({ url, anonymous: true }));
  const plant = await openPlant(t, { listeners });
  const [tcp, ws] = plant.broker.addresses as [string, string];
  assert.match(tcp, /^mqtt:\/\/127\.0\.0\.1:\d+$/);
  assert.match(ws, /^ws:\/\/127\.0\.0\.1:\d+$/);
  const page = await client(t, { url: ws }, { protocolVersion: 5 });
  const received = collect(page);
  await page.subscribeAsync('x/#', { qos: 1 });
  const publisher = await client(t, { url: tcp });
  await publisher.publishAsync('x/a', 'y'.repeat(100_000), { qos: 1 });
  await page.publishAsync('x/b', 'from the page', { qos: 2 });
  await until('both are there', () => received.length === 2);
  assert.equal(received[0]?.text.length, 100_000);
  const stranger = new WebSocket(ws, ['other']);
  const refused = await new Promise((resolve) => stranger.on('error', resolve));
  assert.match(String(refused), /400/);
  const status = await new Promise((resolve) =>
    get(ws.replace('ws', 'http'), (answer) => resolve(answer.resume().statusCode)),
  );
  assert.equal(status, 426);
});

test('an address that is taken is an error that says so, and nothing stays open', async (t) => {
  const plant = await openPlant(t);
  const listeners = [{ url: 'ws://127.0.0.1:0' }, { url: plant.url }];
  const { store } = plant;
  const open = Broker.open({
    store,
    admit: (_m, _i, ops, done) => store.submit(ops, done),
    listeners,
    clock: systemClock,
    log: silentLog,
  });
  await assert.rejects(open, (error: unknown) => {
    assert.ok(error instanceof HoldfastError);
    assert.equal(error.code, 'listen.failed');
    assert.equal(error.values.url, plant.url);
    assert.match(error.hint ?? '', /already listening/);
    return true;
  });
});

test('close ends by itself although clients stay, and a second call is the same', async (t) => {
  const plant = await openPlant(t);
  await client(t, plant);
  const closing = plant.broker.close();
  assert.equal(plant.broker.close(), closing);
  await closing;
});
