import assert from 'node:assert/strict';
import { test } from 'node:test';
import mqtt, { type Packet } from 'mqtt-packet';
import { type Log, silentLog } from '../../src/lib/log.js';
import { openPlant, RawClient } from '../helpers/broker.js';
import { until } from '../helpers/wait.js';

const ROUNDS = 1_500;
const AT_ONCE = 20;

/** A small generator with a seed, so that a failure can be repeated (mulberry32, public domain by T. Ettinger). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function conversation(version: number, n: number): Buffer[] {
  const ids = ['__proto__', 'constructor', 'a', 'b', ''];
  const properties =
    version === 5 ? { sessionExpiryInterval: n % 2 ? 60 : 0, receiveMaximum: 2, topicAliasMaximum: 3 } : undefined;
  const will = n % 3 ? undefined : { topic: 'w', payload: Buffer.from('x'), qos: 1, retain: true };
  const clientId = ids[n % ids.length];
  const packets = [
    {
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: version,
      clientId,
      clean: n % 2 === 0 || clientId === '',
      keepalive: 10,
      properties,
      will,
    },
    {
      cmd: 'subscribe',
      messageId: 1,
      subscriptions: [
        { topic: 'x/#', qos: 2 },
        { topic: '$share/g/+', qos: 1 },
      ],
    },
    {
      cmd: 'publish',
      topic: 'x/y',
      payload: 'z',
      qos: 2,
      dup: false,
      retain: true,
      messageId: 2,
      properties: version === 5 ? { topicAlias: 1, messageExpiryInterval: 9, userProperties: { a: 'b' } } : undefined,
    },
    { cmd: 'publish', topic: 'x/y', payload: 'z', qos: 1, dup: false, retain: false, messageId: 3 },
    { cmd: 'pubrel', messageId: 2 },
    { cmd: 'pubrec', messageId: 1 },
    { cmd: 'puback', messageId: 2 },
    { cmd: 'pubcomp', messageId: 1 },
    { cmd: 'pingreq' },
    { cmd: 'unsubscribe', messageId: 4, unsubscriptions: ['x/#'] },
    { cmd: 'disconnect' },
  ];
  return packets.map((packet) => mqtt.generate(packet as Packet, { protocolVersion: version }));
}

function mutate(bytes: Buffer, random: () => number): Buffer {
  const copy = Buffer.from(bytes);
  for (let changes = Math.floor(random() * 4); changes > 0; changes--)
    copy[Math.floor(random() * copy.length)] = Math.floor(random() * 256);
  const cut = random() < 0.1 ? Math.floor(random() * copy.length) : copy.length;
  return copy.subarray(0, cut);
}

test('mutated conversations end connections and nothing else', async (t) => {
  const complaints: unknown[] = [];
  const log: Log = { ...silentLog, error: (...what: unknown[]) => void complaints.push(what), child: () => log };
  const plant = await openPlant(t, { log });
  const thrown: unknown[] = [];
  const note = (error: unknown) => void thrown.push(error);
  process.on('uncaughtException', note);
  process.on('unhandledRejection', note);
  t.after(() => {
    process.off('uncaughtException', note);
    process.off('unhandledRejection', note);
  });
  const random = randomFrom(20261130);
  const converse = async (n: number): Promise<void> => {
    const raw = await RawClient.open(t, plant.port, 4 + (n % 2));
    raw.socket.removeAllListeners('data').resume();
    const [connect, ...rest] = conversation(4 + (n % 2), n) as [Buffer, ...Buffer[]];
    const bytes = Buffer.concat([
      n % 4 ? connect : mutate(connect, random),
      ...rest.map((packet) => mutate(packet, random)),
    ]);
    for (let at = 0; at < bytes.length && !raw.closed; ) {
      const end = at + 1 + Math.floor(random() * bytes.length);
      raw.socket.write(bytes.subarray(at, end));
      at = end;
    }
    raw.socket.end();
    await raw.gone();
  };
  for (let n = 0; n < ROUNDS; n += AT_ONCE)
    await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => converse(n + i)));
  await until('all are gone', () => plant.broker.status().clients === 0);
  const sober = await RawClient.connect(t, plant.port, 'sober');
  sober.publish('x/y', 'still here', 1, 1);
  await sober.next('puback');
  assert.deepEqual(thrown, []);
  assert.deepEqual(complaints, [], 'nothing was a surprise');
  await plant.restart();
  const again = await RawClient.connect(t, plant.port, 'sober');
  await again.ping();
});
