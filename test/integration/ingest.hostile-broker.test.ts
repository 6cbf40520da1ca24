import assert from 'node:assert/strict';
import { test } from 'node:test';
import mqttPacket from 'mqtt-packet';
import { encodeColumns } from '../../src/wire/columns.js';
import { rowsFrom } from '../helpers/batches.js';
import { openIngest, TOPIC } from '../helpers/ingest.js';
import { source } from '../helpers/rows.js';
import { TinyBroker } from '../helpers/tiny-broker.js';
import { until } from '../helpers/wait.js';

const batch = encodeColumns(source(), rowsFrom(1, 3));

test('it starts without a broker, and finds it when it comes', async (t) => {
  const broker = await TinyBroker.open(t);
  broker.intercept = (_, socket) => {
    socket.destroy();
    return true;
  };
  const { ingest } = await openIngest(t, broker.url);
  await until('a few attempts', () => broker.received.length >= 3);
  assert.equal(ingest.status().connected, false);
  assert.match(ingest.status().problem ?? '', /closed|ECONNRESET/);
  broker.intercept = () => false;
  broker.publish(TOPIC, batch);
  await until('stored', () => ingest.status().stored === 3);
  assert.deepEqual([ingest.status().connected, ingest.status().problem], [true, null]);
});

for (const [name, bytes] of [
  ['an incomplete CONNACK', Buffer.of(0x20, 0x00)],
  ['no CONNACK at all', Buffer.alloc(0)],
  ['a refusal', Buffer.of(0x20, 0x03, 0x00, 0x87, 0x00)],
] as const)
  test(`${name} is given up and tried again`, async (t) => {
    const broker = await TinyBroker.open(t);
    broker.intercept = (packet, socket) => {
      if (packet.cmd !== 'connect' || broker.received.length > 2) return false;
      socket.write(bytes);
      return true;
    };
    const { ingest } = await openIngest(t, broker.url, { broker: { connectTimeoutMs: 100 } });
    broker.publish(TOPIC, batch);
    await until('stored', () => ingest.status().stored === 3);
  });

test('a subscription that is not granted with QoS 1 is told', async (t) => {
  const broker = await TinyBroker.open(t);
  let granted = 0x87;
  broker.intercept = (packet, socket) => {
    if (packet.cmd !== 'subscribe' || granted === 1) return false;
    const suback = { cmd: 'suback' as const, messageId: packet.messageId!, granted: [granted] };
    socket.write(mqttPacket.generate(suback, { protocolVersion: 5 }));
    return true;
  };
  const { ingest } = await openIngest(t, broker.url);
  await until('the refusal', () => /did not grant QoS 1 on edge/.test(ingest.status().problem ?? ''));
  granted = 0;
  const attempts = broker.connects.length;
  await until('refused again', () => broker.connects.length > attempts + 1);
  assert.match(ingest.status().problem ?? '', /did not grant QoS 1/);
  granted = 1;
  await until('connected', () => ingest.status().connected);
});

for (const [name, bytes] of [
  ['a PUBLISH with QoS 1 and no packet id', Buffer.of(0x32, 0x05, 0x00, 0x03, 0x61, 0x62, 0x63)],
  ['a PUBLISH with QoS 2', Buffer.of(0x34, 0x08, 0x00, 0x03, 0x61, 0x62, 0x63, 0x00, 0x01, 0x00)],
  ['a PUBLISH with QoS 2 and no packet id', Buffer.of(0x34, 0x05, 0x00, 0x03, 0x61, 0x62, 0x63)],
  ['a PUBREL', Buffer.of(0x62, 0x02, 0x00, 0x05)],
  ['a PUBREL without packet id', Buffer.of(0x62, 0x00)],
  ['a PUBREC', Buffer.of(0x50, 0x02, 0x00, 0x05)],
  ['a topic alias that was never offered', Buffer.of(0x32, 0x08, 0x00, 0x00, 0x00, 0x01, 0x03, 0x23, 0x00, 0x01)],
  ['bytes that are no packet', Buffer.of(0x00, 0xff, 0xff, 0xff, 0xff, 0xff)],
] as const)
  test(`${name} ends the connection and not the process`, async (t) => {
    const broker = await TinyBroker.open(t);
    const { ingest } = await openIngest(t, broker.url);
    await until('connected', () => ingest.status().connected);
    broker.write(bytes);
    await until('a new connection', () => broker.connects.length === 2);
    broker.publish(TOPIC, batch);
    await until('stored', () => ingest.status().stored === 3);
  });

test('the session is asked for again and again under the same name', async (t) => {
  const broker = await TinyBroker.open(t);
  const { ingest } = await openIngest(t, broker.url, { broker: { receiveMaximum: 7, sessionExpiryS: 99 } });
  await until('connected', () => ingest.status().connected);
  broker.drop();
  await until('a new connection', () => broker.connects.length === 2);
  for (const { clientId, clean, properties } of broker.connects)
    assert.deepEqual(
      [clientId, clean, properties?.receiveMaximum, properties?.sessionExpiryInterval],
      ['ingest-1', false, 7, 99],
    );
});

test('options that can never work are refused at once', async (t) => {
  for (const broker of [
    { url: 'nowhere' },
    { url: 'http://x' },
    { topics: [] },
    { topics: ['a/#/b'] },
    { clientId: '' },
  ])
    await assert.rejects(openIngest(t, 'mqtt://127.0.0.1:1', { broker }), { code: 'config.invalid' });
});
