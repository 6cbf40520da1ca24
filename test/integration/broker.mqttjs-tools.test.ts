import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect, connectAsync } from 'mqtt';
import { client, collect, openPlant } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

// Node-RED and MQTT Explorer are MQTT.js with these habits: `#` and `$SYS/#` at once, kept sessions, QoS from a menu, a
// will, and topics that are unsubscribed and subscribed again at every deploy.
const SPOKEN = [4, 5].flatMap((version) =>
  (['mqtt', 'ws'] as const).map((door) => ({ version: version as 4 | 5, door })),
);

for (const { version, door } of SPOKEN) {
  const name = `version ${version}, ${door}`;

  test(`an explorer sees every topic with its value, and what the broker says of itself (${name})`, async (t) => {
    const plant = await openPlant(t, { listeners: [{ url: `${door}://127.0.0.1:0`, anonymous: true }] });
    const writer = await client(t, plant, { protocolVersion: version });
    await writer.publishAsync('plant/a', 'kept', { qos: 1, retain: true });
    const explorer = await client(t, plant, { protocolVersion: version, clientId: `mqtt-explorer-${version}` });
    const seen = collect(explorer);
    const granted = await explorer.subscribeAsync({ '#': { qos: 0 }, '$SYS/#': { qos: 0 } });
    assert.deepEqual(
      granted.map(({ qos }) => qos),
      [0, 0],
    );
    await until('the retained value and the topics of the broker', () => {
      const topics = new Set(seen.map(({ topic }) => topic));
      return topics.has('plant/a') && topics.has('$SYS/broker/version') && topics.has('$SYS/broker/clients/connected');
    });
    const [kept] = seen.filter(({ topic }) => topic === 'plant/a');
    assert.deepEqual(kept, { topic: 'plant/a', text: 'kept', qos: 0, retain: true, dup: false });
    // It deletes a topic by an empty retained message, and publishes what its user types.
    await explorer.publishAsync('plant/a', '', { qos: 0, retain: true });
    await explorer.publishAsync('plant/b', 'typed', { qos: 2, retain: false });
    await until('its own message', () => seen.some(({ topic, text }) => topic === 'plant/b' && text === 'typed'));
    const late = await client(t, plant, { protocolVersion: version });
    const found = collect(late);
    await late.subscribeAsync('plant/#', { qos: 1 });
    await late.publishAsync('plant/fence', 'x', { qos: 1 });
    await until('the last message', () => found.some(({ topic }) => topic === 'plant/fence'));
    assert.deepEqual(
      found.map(({ topic }) => topic),
      ['plant/fence'],
    );
  });

  test(`a flow with a kept session gets what came while it was redeployed, and its will tells (${name})`, async (t) => {
    const plant = await openPlant(t, { listeners: [{ url: `${door}://127.0.0.1:0`, anonymous: true }] });
    const options = {
      protocolVersion: version,
      clientId: 'nodered_1',
      clean: false,
      reconnectPeriod: 0,
      will: { topic: 'plant/flow/state', payload: Buffer.from('offline'), qos: 1 as const, retain: true },
      ...(version === 5 ? { properties: { sessionExpiryInterval: 3600 } } : {}),
    };
    const flow = await connectAsync(plant.url, options);
    const first = collect(flow);
    await flow.publishAsync('plant/flow/state', 'online', { qos: 1, retain: true });
    await flow.subscribeAsync('plant/+/value', { qos: 2 });
    const writer = await client(t, plant, { protocolVersion: version });
    await writer.publishAsync('plant/a/value', 'live', { qos: 2 });
    await until('the live value', () => first.length === 1);
    const watcher = await client(t, plant, { protocolVersion: version });
    const states = collect(watcher);
    await watcher.subscribeAsync('plant/flow/state', { qos: 1 });
    flow.stream.destroy();
    await until('its will', () => states.at(-1)?.text === 'offline');
    for (const n of [1, 2, 3]) await writer.publishAsync('plant/a/value', `away ${n}`, { qos: 1 });
    // The handler has to be there before the connection: the queue comes at once.
    const second: string[] = [];
    const back = connect(plant.url, options);
    back.on('message', (_topic, payload) => void second.push(String(payload)));
    t.after(() => back.endAsync(true));
    await until('what came meanwhile', () => second.length === 3);
    assert.deepEqual(second, ['away 1', 'away 2', 'away 3']);
    await back.unsubscribeAsync('plant/+/value');
    await back.subscribeAsync('plant/+/value', { qos: 1 });
    await writer.publishAsync('plant/a/value', 'again', { qos: 1 });
    await until('a value after the new subscription', () => second.at(-1) === 'again');
  });
}
