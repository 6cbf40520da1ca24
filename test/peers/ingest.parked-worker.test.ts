import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, connectAsync, type MqttClient } from 'mqtt';
import { openMosquitto } from '../helpers/mosquitto.js';
import { peer } from '../helpers/peers.js';
import { until } from '../helpers/wait.js';

const mosquitto = peer('mosquitto');
const skip = mosquitto ? false : 'mosquitto is not installed';
const MESSAGES = 60;

/** A member of the group, and what it was sent. */
async function member(
  url: string,
  clientId: string,
  sessionExpiryInterval: number,
  got: string[],
): Promise<MqttClient> {
  const client = connect(url, {
    clientId,
    protocolVersion: 5,
    clean: false,
    reconnectPeriod: 0,
    properties: { sessionExpiryInterval, receiveMaximum: 10 },
  });
  // Before it is connected: what was parked comes right behind the CONNACK.
  client.on('message', (_topic, payload) => got.push(String(payload)));
  await new Promise((resolve) => client.once('connect', resolve));
  await client.subscribeAsync('$share/g/edge/+/batch', { qos: 1 });
  return client;
}

/** What reaches the one that stays, and then the one that was away, when that comes back after `awayMs`. */
async function parked(t: TestContext, sessionExpiryS: number, awayMs: number) {
  const url = await openMosquitto(t, mosquitto!, ['max_queued_messages 0']);
  const stays: string[] = [];
  const leaves: string[] = [];
  const one = await member(url, 'stays', 600, stays);
  t.after(() => one.endAsync(true));
  const other = await member(url, 'leaves', sessionExpiryS, leaves);
  other.stream.destroy();
  await until('it is gone', () => !other.connected);
  const publisher = await connectAsync(url, { protocolVersion: 5 });
  t.after(() => publisher.endAsync(true));
  for (let n = 0; n < MESSAGES; n++) await publisher.publishAsync('edge/x/batch', String(n), { qos: 1 });
  await until('a share has arrived', () => stays.length >= MESSAGES / 2);
  await delay(awayMs);
  const before = stays.length;
  const back = await member(url, 'leaves', 600, leaves);
  t.after(() => back.endAsync(true));
  await publisher.publishAsync('edge/x/batch', 'mark-1', { qos: 1 });
  await publisher.publishAsync('edge/x/batch', 'mark-2', { qos: 1 });
  await until('the marks', () => [...stays, ...leaves].filter((text) => text.startsWith('mark')).length === 2);
  return { stays: before, leaves: leaves.filter((text) => !text.startsWith('mark')).length };
}

test('what mosquitto gives a worker that is away waits in its session, and comes with its client id', {
  skip,
}, async (t) => {
  const { stays, leaves } = await parked(t, 600, 0);
  t.diagnostic(`${stays} reached the worker that stayed, ${leaves} the one that came back`);
  assert.equal(stays + leaves, MESSAGES);
  assert.ok(leaves > 0, 'mosquitto goes on giving a share to a session that is away');
});

test('a session that expires takes what was parked in it along: mosquitto gives it to nobody else', {
  skip,
}, async (t) => {
  const { stays, leaves } = await parked(t, 1, 3_000);
  t.diagnostic(`${stays} reached the worker that stayed, ${leaves} the one that came back`);
  assert.ok(stays + leaves < MESSAGES, 'so the expiry must be longer than any repair');
});
