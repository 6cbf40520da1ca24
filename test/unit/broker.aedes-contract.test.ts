import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import type { Packet } from 'mqtt-packet';
import { AedesCore, ControlChannel, type ControlOwner } from '../../src/broker/aedes-core.js';
import { silentLog } from '../../src/lib/log.js';
import { until } from '../helpers/wait.js';

/** What the broker relies on in Aedes. A new version has to pass this before it may be taken. */

interface Talk {
  channel: ControlChannel;
  events: string[];
  verdicts: Packet[];
  allow: { in: boolean; filter: (filter: string) => boolean };
  closed: boolean;
}

async function talk(core: AedesCore, clientId: string, allowIn = true): Promise<Talk> {
  const it = open(core, clientId, allowIn);
  await until('connack', () => it.verdicts.length > 0);
  return it;
}

function open(core: AedesCore, clientId: string, allowIn: boolean): Talk {
  const it: Talk = { events: [], verdicts: [], allow: { in: allowIn, filter: () => true }, closed: false } as never;
  const owner: ControlOwner = {
    get isClosed() {
      return it.closed;
    },
    authenticate: async () => {
      it.events.push('authenticate');
      return it.allow.in;
    },
    maySubscribe: (filter) => {
      it.events.push(`may ${filter}`);
      return it.allow.filter(filter);
    },
    onVerdict: (packet) => {
      it.events.push(packet.cmd);
      it.verdicts.push(packet);
    },
    onChannelClosed: () => {
      it.closed = true;
    },
  };
  it.channel = new ControlChannel(owner);
  core.handle(it.channel);
  it.channel.pass({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clientId, clean: true, keepalive: 0 });
  return it;
}

test('Aedes is the version that was examined, pinned exactly', () => {
  const path = createRequire(import.meta.url)
    .resolve('aedes')
    .replace(/aedes\.js$/, 'package.json');
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).version, '1.2.0');
  assert.equal(JSON.parse(readFileSync('package.json', 'utf8')).dependencies.aedes, '1.2.0');
});

test('authenticate comes first, CONNACK carries its answer, and a refused client is closed', async (t) => {
  const core = await AedesCore.open(silentLog);
  t.after(() => core.shut());
  const good = await talk(core, 'good');
  assert.deepEqual(good.events, ['authenticate', 'connack']);
  assert.equal((good.verdicts[0] as { returnCode: number }).returnCode, 0);
  const bad = await talk(core, 'bad', false);
  assert.equal((bad.verdicts[0] as { returnCode: number }).returnCode, 5);
  await until('it is closed', () => bad.closed);
});

test('SUBACK has one code for each filter in the order sent, 128 where a filter is denied', async (t) => {
  const core = await AedesCore.open(silentLog);
  t.after(() => core.shut());
  const it = await talk(core, 's');
  it.allow.filter = (filter) => !filter.startsWith('secret');
  const subscriptions = (['a', 'secret/#', 'b/+', '$share/g/c', 'constructor'] as const).map((topic, i) => ({
    topic,
    qos: (i % 3) as 0,
  }));
  it.channel.pass({ cmd: 'subscribe', messageId: 7, subscriptions });
  await until('suback', () => it.verdicts.length === 2);
  const suback = it.verdicts[1] as { messageId: number; granted: number[] };
  assert.deepEqual([suback.messageId, suback.granted], [7, [0, 128, 2, 0, 1]]);
  assert.deepEqual(
    it.events.slice(2, -1),
    subscriptions.map(({ topic }) => `may ${topic}`),
  );
  it.channel.pass({ cmd: 'unsubscribe', messageId: 8, unsubscriptions: ['a', 'never'] });
  await until('unsuback', () => it.verdicts.length === 3);
  assert.equal((it.verdicts[2] as { messageId: number }).messageId, 8);
});

test('a filter that is subscribed again with another QoS is replaced, and its deliverer is not called for that', async (t) => {
  const core = await AedesCore.open(silentLog);
  t.after(() => core.shut());
  const it = await talk(core, 's');
  for (const qos of [0, 1, 1, 2] as const) {
    const seen = it.verdicts.length;
    it.channel.pass({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: 'a', qos }] });
    await until('suback', () => it.verdicts.length > seen);
    assert.deepEqual((it.verdicts.at(-1) as { granted: number[] }).granted, [qos]);
  }
});

test('nothing is delivered by Aedes, and a client that ends leaves nothing behind', async (t) => {
  const core = await AedesCore.open(silentLog);
  t.after(() => core.shut());
  const it = await talk(core, 's');
  it.channel.pass({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '#', qos: 1 }] });
  await until('suback', () => it.verdicts.length === 2);
  await new Promise<void>((resolve) => core.publish({ topic: 'x', payload: 'y' }, () => resolve()));
  assert.equal(it.verdicts.length, 2);
  assert.equal(core.connectedClients, 1);
  it.channel.destroy();
  await until('it is unregistered', () => core.connectedClients === 0);
});

test('clients that die while they are connecting leave nothing behind', async (t) => {
  const core = await AedesCore.open(silentLog);
  t.after(() => core.shut());
  for (let n = 0; n < 200; n++) {
    const it = open(core, `c${n}`, true);
    // At every stage: before it is asked, while it is asked, after the answer.
    for (let turns = n % 4; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
    it.channel.destroy();
  }
  const last = await talk(core, 'last');
  await until(
    'only the last is registered',
    () => Object.keys((core as unknown as { clients: object }).clients).length === 1,
  );
  last.channel.destroy();
});
