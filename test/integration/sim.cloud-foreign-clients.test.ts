import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import mqtt from 'mqtt';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { peer } from '../helpers/peers.js';
import { until } from '../helpers/wait.js';

const run = promisify(execFile);

async function open(t: TestContext): Promise<FaultBroker> {
  const broker = await FaultBroker.open({ port: 0 });
  t.after(() => broker.close());
  return broker;
}

for (const protocolVersion of [4, 5] as const)
  test(`MQTT.js speaking ${protocolVersion} publishes and subscribes at every QoS, retains, and unsubscribes`, async (t) => {
    const broker = await open(t);
    const client = await mqtt.connectAsync({
      host: broker.host,
      port: broker.port,
      protocol: 'mqtt',
      protocolVersion,
      reconnectPeriod: 0,
    });
    t.after(() => client.endAsync(true));
    const received: string[] = [];
    client.on('message', (topic, payload, { qos, retain }) => received.push(`${topic} ${payload} ${qos} ${retain}`));
    const grants = await client.subscribeAsync(['a/+', 'b/#'], { qos: 2 });
    assert.deepEqual(
      grants.map(({ qos }) => qos),
      [2, 2],
    );
    const body = 'x'.repeat(8000);
    for (const qos of [0, 1, 2] as const) await client.publishAsync('a/1', body, { qos });
    await client.publishAsync('b', 'kept', { qos: 1, retain: true });
    await until('four messages', () => received.length === 4);
    assert.deepEqual(received, [`a/1 ${body} 0 false`, `a/1 ${body} 1 false`, `a/1 ${body} 2 false`, 'b kept 1 false']);
    await client.unsubscribeAsync(['a/+', 'b/#']);
    await client.publishAsync('a/1', 'unheard', { qos: 1 });
    await client.subscribeAsync('b', { qos: 0 });
    await until('the retained message', () => received.length === 5);
    assert.equal(received[4], 'b kept 0 true');
    await client.publishAsync('b', '', { qos: 1, retain: true });
    await client.subscribeAsync('b', { qos: 0 });
    await client.publishAsync('b', 'last', { qos: 0 });
    await until('the last message', () => received.includes('b last 0 false'));
    assert.deepEqual(received.slice(5), ['b  0 false', 'b last 0 false']);
    await assert.rejects(client.subscribeAsync('$share/group/a', { qos: 1 }));
  });

test('properties of MQTT 5 reach an MQTT 5 subscriber, and a subscriber of 3.1.1 gets the message without them', async (t) => {
  const broker = await open(t);
  const common = { host: broker.host, port: broker.port, protocol: 'mqtt', reconnectPeriod: 0 } as const;
  const five = await mqtt.connectAsync({ ...common, protocolVersion: 5 });
  const four = await mqtt.connectAsync({ ...common, protocolVersion: 4 });
  t.after(() => Promise.all([five.endAsync(true), four.endAsync(true)]));
  const got: unknown[] = [];
  five.on('message', (_topic, payload, { properties }) => got.push([5, payload.toString(), properties]));
  four.on('message', (_topic, payload, { properties }) => got.push([4, payload.toString(), properties]));
  await five.subscribeAsync('t', { qos: 1 });
  await four.subscribeAsync('t', { qos: 1 });
  const properties = {
    payloadFormatIndicator: true,
    messageExpiryInterval: 100,
    contentType: 'application/x',
    responseTopic: 'r',
    correlationData: Buffer.from([1, 2]),
    userProperties: { a: ['1', '2'], b: '3' },
  };
  await five.publishAsync('t', 'x', { qos: 1, properties });
  await until('both', () => got.length === 2);
  assert.deepEqual(
    JSON.parse(JSON.stringify(got.sort())),
    JSON.parse(
      JSON.stringify([
        [4, 'x', undefined],
        [5, 'x', properties],
      ]),
    ),
  );
});

test('the in-flight limit of MQTT.js itself is never exceeded by a thousand messages', async (t) => {
  const broker = await open(t);
  const common = {
    host: broker.host,
    port: broker.port,
    protocol: 'mqtt',
    protocolVersion: 5,
    reconnectPeriod: 0,
  } as const;
  const subscriber = await mqtt.connectAsync({ ...common, properties: { receiveMaximum: 7 } });
  const publisher = await mqtt.connectAsync(common);
  t.after(() => Promise.all([subscriber.endAsync(true), publisher.endAsync(true)]));
  let inFlight = 0;
  let inFlightMax = 0;
  const received: number[] = [];
  subscriber.on('packetreceive', ({ cmd }) => {
    if (cmd === 'publish') inFlightMax = Math.max(inFlightMax, ++inFlight);
  });
  subscriber.on('packetsend', ({ cmd }) => {
    if (cmd === 'puback') inFlight--;
  });
  subscriber.on('message', (_topic, payload) => received.push(Number(payload)));
  await subscriber.subscribeAsync('n', { qos: 1 });
  await Promise.all(Array.from({ length: 1000 }, (_, n) => publisher.publishAsync('n', String(n), { qos: 1 })));
  await until('a thousand', () => received.length === 1000);
  assert.deepEqual(
    received,
    Array.from({ length: 1000 }, (_, n) => n),
  );
  assert.ok(inFlightMax <= 7, `${inFlightMax} in flight`);
});

const pub = peer('mosquitto_pub');
const sub = peer('mosquitto_sub');
for (const version of ['311', '5'])
  test(`mosquitto_pub and mosquitto_sub speaking ${version}`, {
    skip: pub && sub ? false : 'no mosquitto clients',
  }, async (t) => {
    const broker = await open(t);
    const at = ['-h', broker.host, '-p', String(broker.port), '-V', version];
    const subscriber = spawn(sub!, [...at, '-t', 'm/#', '-q', '2', '-C', '6', '-F', '%t %q %p'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => subscriber.kill());
    let output = '';
    subscriber.stdout.on('data', (text) => {
      output += text;
    });
    const exited = new Promise((resolve) => subscriber.on('exit', resolve));
    await until('its session', () => broker.stats().sessions === 1);
    await until('its subscription', async () => {
      await run(pub!, [...at, '-t', 'm/probe', '-m', 'probe', '-q', '1']);
      return output.includes('probe');
    });
    for (const qos of ['0', '1', '2']) await run(pub!, [...at, '-t', `m/${qos}`, '-m', `text ${qos}`, '-q', qos]);
    await until('all three', () => output.includes('m/2 2 text 2'));
    assert.match(output, /m\/0 0 text 0\nm\/1 1 text 1\nm\/2 2 text 2\n/);
    await run(pub!, [...at, '-t', 'm/end', '-m', 'end', '-q', '1', '--repeat', '6']);
    assert.equal(await exited, 0);
  });

test('MQTT.js sends again what a reset kept from being acknowledged', async (t) => {
  const taken: string[] = [];
  const broker = await FaultBroker.open({
    port: 0,
    faults: { resetAfterPublishes: 2 },
    onPublish: ({ payload }) => taken.push(payload.toString()),
  });
  t.after(() => broker.close());
  const client = await mqtt.connectAsync({
    host: broker.host,
    port: broker.port,
    protocol: 'mqtt',
    protocolVersion: 5,
    reconnectPeriod: 10,
  });
  t.after(() => client.endAsync(true));
  client.on('error', () => {});
  await client.publishAsync('t', 'one', { qos: 1 });
  await client.publishAsync('t', 'two', { qos: 1 });
  assert.deepEqual(taken, ['one', 'two', 'two']);
});
