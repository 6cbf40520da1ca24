import assert from 'node:assert/strict';
import type { RawClient } from '../helpers/broker.js';
import { type Clause, hex, packetOf, stringOf, type Version } from './clause.js';

/** The body of a PUBLISH with an id, as it would follow the first byte. */
function bodyOf(version: Version, topic: string | Buffer, id = '0001', rest = 'x'): Buffer {
  return Buffer.concat([stringOf(topic), hex(id), hex(version === 5 ? '00' : ''), Buffer.from(rest)]);
}

/** Packets that break the rules, each on a connection of its own. */
const BROKEN: readonly [v4: string | undefined, v5: string | undefined, what: string, of: (v: Version) => Buffer][] = [
  ['3.3.1-4', '3.3.1-4', 'QoS 3', (v) => packetOf(0x36, bodyOf(v, 'a'))],
  ['3.3.1-2', '3.3.1-2', 'DUP with QoS 0', (v) => packetOf(0x38, bodyOf(v, 'a', ''))],
  ['2.3.1-1', '2.2.1-3', 'packet id 0 in a PUBLISH', (v) => packetOf(0x32, bodyOf(v, 'a', '0000'))],
  ['3.3.2-2', '3.3.2-2', '# in the topic of a PUBLISH', (v) => packetOf(0x32, bodyOf(v, 'a/#'))],
  ['4.7.1-1', '4.7.0-1', '+ in the topic of a PUBLISH', (v) => packetOf(0x32, bodyOf(v, '+/a'))],
  ['4.7.3-1', '4.7.3-1', 'an empty topic', (v) => packetOf(0x32, bodyOf(v, ''))],
  ['4.7.3-2 1.5.3-2', '4.7.3-2 1.5.4-2', 'NUL in a topic', (v) => packetOf(0x32, bodyOf(v, 'a\0b'))],
  [
    '1.5.3-1',
    '1.5.4-1',
    'a topic that is not UTF-8',
    (v) => packetOf(0x32, bodyOf(v, Buffer.from([0x61, 0xc3, 0x28]))),
  ],
  ['2.2.2-2', '2.1.3-1', 'flags of a PINGREQ', () => hex('c1 00')],
  ['3.6.1-1', '3.6.1-1', 'flags of a PUBREL', () => hex('60 02 00 01')],
  ['4.8.0-1', '4.13.1-1', 'a packet that is cut short', (v) => packetOf(0x32, bodyOf(v, 'a').subarray(0, 4))],
  ['4.8.0-1', '4.13.1-1', 'a packet type that does not exist', () => hex('00 00')],
  ['4.8.0-1', '4.13.1-1', 'a packet that only servers send', () => hex('20 02 00 00')],
  ['4.8.0-1', '1.5.5-1', 'a length of more than four bytes', () => hex('30 80 80 80 80 01')],
  [undefined, '3.3.2-8', 'topic alias 0', () => packetOf(0x30, Buffer.concat([stringOf('a'), hex('03 23 00 00')]))],
  [
    undefined,
    '3.3.2-9',
    'a topic alias above the maximum',
    () => packetOf(0x30, Buffer.concat([stringOf('a'), hex('03 23 ff ff')])),
  ],
  [
    undefined,
    '3.3.4-6',
    'a subscription identifier from a client',
    () => packetOf(0x30, Buffer.concat([stringOf('a'), hex('02 0b 01')])),
  ],
  [
    undefined,
    '3.3.2-14',
    'a wildcard in a response topic',
    () => packetOf(0x30, Buffer.concat([stringOf('a'), hex('06 08 00 03 61 2f 23')])),
  ],
  [
    undefined,
    '2.2.2-1',
    'the same property twice',
    () => packetOf(0x30, Buffer.concat([stringOf('a'), hex('04 01 00 01 00')])),
  ],
];

const MOSQUITTO_LETS_PASS: ReadonlySet<string> = new Set([
  'DUP with QoS 0',
  'flags of a PINGREQ',
  'a subscription identifier from a client',
  'a wildcard in a response topic',
]);

async function receive(raw: RawClient, qos: number): Promise<string> {
  const { messageId, payload, qos: got } = await raw.next('publish');
  assert.equal(got, qos);
  if (qos === 1) raw.send({ cmd: 'puback', messageId });
  if (qos === 2) {
    raw.send({ cmd: 'pubrec', messageId });
    assert.equal((await raw.next('pubrel')).messageId, messageId);
    raw.send({ cmd: 'pubcomp', messageId });
  }
  return String(payload);
}

/** PUBLISH and its acknowledgements, retained messages, order. */
export const publishing: readonly Clause[] = [
  ...BROKEN.map(([v4, v5, what, of]): Clause => {
    return {
      ...(v4 ? { v4 } : {}),
      ...(v5 ? { v5 } : {}),
      what: `${what} ends the connection`,
      ...(MOSQUITTO_LETS_PASS.has(what) ? { mosquitto: 'lets it pass' } : {}),
      run: async (bench) => {
        const raw = await bench.connect('a');
        raw.socket.write(of(bench.version));
        await raw.gone();
        for (const packet of raw.packets) assert.ok(packet.cmd === 'disconnect' && (packet.reasonCode ?? 0) >= 0x80);
      },
    };
  }),
  {
    v4: '3.3.4-1 4.3.1-1 4.3.2-2 4.3.3-2',
    v5: '3.3.4-1 4.3.1-1 4.3.2-4 4.3.3-8 4.3.3-11',
    what: 'each QoS has its acknowledgements, with the id of the message',
    run: async (bench) => {
      const raw = await bench.connect('a');
      raw.publish(bench.topic(), '1', 1, 11);
      assert.equal((await raw.next('puback')).messageId, 11);
      raw.publish(bench.topic(), '2', 2, 12);
      assert.equal((await raw.next('pubrec')).messageId, 12);
      raw.send({ cmd: 'pubrel', messageId: 12 });
      assert.equal((await raw.next('pubcomp')).messageId, 12);
      raw.publish(bench.topic(), '0', 0);
      await raw.ping();
      assert.deepEqual(raw.packets, []);
    },
  },
  {
    v4: '4.3.3-2',
    v5: '4.3.3-10 4.3.3-12',
    what: 'a QoS 2 message that comes again before its PUBREL is delivered once, and after it anew',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, { topic: bench.topic(), qos: 0 });
      const raw = await bench.connect('a');
      for (const dup of [false, true]) {
        raw.publish(bench.topic(), 'one', 2, 5, { dup });
        await raw.next('pubrec');
      }
      raw.send({ cmd: 'pubrel', messageId: 5 });
      await raw.next('pubcomp');
      await bench.publishSurely(raw, bench.topic(), 'two', 5);
      assert.deepEqual(await bench.rest(watcher), ['one', 'two']);
    },
  },
  {
    v4: '4.3.3-2',
    v5: '4.3.3-11',
    what: 'PUBREL of an id that is not known is answered too',
    run: async (bench) => {
      const raw = await bench.connect('a');
      raw.send({ cmd: 'pubrel', messageId: 77, reasonCode: 0 });
      assert.equal((await raw.next('pubcomp')).messageId, 77);
    },
  },
  {
    v4: '3.8.4-6',
    v5: '3.8.4-8',
    what: 'a message has the smaller QoS of its own and of the subscription',
    run: async (bench) => {
      const raw = await bench.connect('w');
      for (const qos of [0, 1, 2]) await bench.subscribe(raw, { topic: bench.topic(String(qos)), qos });
      const publisher = await bench.connect('p');
      for (const [topic, qos, expected] of [
        ['0', 1, 0],
        ['1', 2, 1],
        ['2', 2, 2],
        ['2', 0, 0],
      ] as const) {
        if (qos === 2) await bench.publishSurely(publisher, bench.topic(topic), `${topic}${qos}`, 22);
        else publisher.publish(bench.topic(topic), `${topic}${qos}`, qos, 20 + qos);
        assert.equal(await receive(raw, expected), `${topic}${qos}`);
      }
    },
  },
  {
    v4: '3.3.5-1',
    v5: '3.3.4-2',
    what: 'of overlapping subscriptions the one with the highest QoS counts',
    run: async (bench) => {
      const raw = await bench.connect('w');
      const subscriptions = ['#', '+', 'a'].map((filter, i) => ({ topic: bench.topic(filter), qos: [1, 0, 1][i] }));
      await bench.subscribe(raw, ...subscriptions);
      await bench.publish(await bench.connect('p'), bench.topic('a'), 'x');
      assert.equal(await receive(raw, 1), 'x');
    },
    mosquitto: 'delivers the lower QoS',
  },
  {
    v4: '3.3.1-3',
    v5: '3.3.1-3',
    what: 'DUP of a publisher is not passed on',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, bench.topic());
      const raw = await bench.connect('a');
      raw.publish(bench.topic(), 'x', 1, 3, { dup: true });
      assert.equal((await watcher.next('publish')).dup, false);
    },
  },
  {
    v4: '3.3.1-5 3.3.1-6 3.3.1-8 3.3.1-9',
    v5: '3.3.1-5 3.3.1-12',
    what: 'the last retained message comes to new subscriptions with RETAIN, to others without',
    run: async (bench) => {
      const early = await bench.connect('e');
      await bench.subscribe(early, { topic: bench.topic(), qos: 0 });
      const publisher = await bench.connect('p');
      for (const text of ['old', 'new']) await bench.publish(publisher, bench.topic(), text, { retain: true });
      for (const text of ['old', 'new']) {
        const { payload, retain } = await early.next('publish');
        assert.deepEqual([String(payload), retain], [text, false]);
      }
      const late = await bench.connect('l');
      await bench.subscribe(late, { topic: bench.topic(), qos: 0 });
      const { payload, retain } = await late.next('publish');
      assert.deepEqual([String(payload), retain], ['new', true]);
      assert.deepEqual(await bench.rest(late), []);
    },
  },
  {
    v4: '3.3.1-10 3.3.1-11 3.3.1-12',
    v5: '3.3.1-6 3.3.1-7 3.3.1-8',
    what: 'an empty retained message removes, one without RETAIN changes nothing',
    run: async (bench) => {
      const publisher = await bench.connect('p');
      for (const topic of ['gone', 'kept']) await bench.publish(publisher, bench.topic(topic), 'x', { retain: true });
      await bench.publish(publisher, bench.topic('gone'), '', { retain: true });
      for (const text of ['other', '']) await bench.publish(publisher, bench.topic('kept'), text);
      const late = await bench.connect('l');
      await bench.subscribe(late, { topic: bench.topic('#'), qos: 0 });
      const { topic, payload } = await late.next('publish');
      assert.deepEqual([topic, String(payload)], [bench.topic('kept'), 'x']);
      assert.deepEqual(await bench.rest(late), []);
    },
  },
  {
    v4: '4.6.0-2 4.6.0-3 4.6.0-5 4.6.0-6',
    v5: '4.6.0-2 4.6.0-3 4.6.0-5 4.6.0-6',
    what: 'acknowledgements and deliveries keep the order of the messages',
    run: async (bench) => {
      const count = 20;
      for (const qos of [1, 2]) {
        const watcher = await bench.connect(`w${qos}`);
        await bench.subscribe(watcher, { topic: bench.topic(String(qos)), qos: 0 });
        const raw = await bench.connect(`p${qos}`);
        const numbers = Array.from({ length: count }, (_, n) => n + 1);
        for (const n of numbers) raw.publish(bench.topic(String(qos)), String(n), qos, n);
        const acked: number[] = [];
        for (const _ of numbers) acked.push((await raw.next(qos === 1 ? 'puback' : 'pubrec')).messageId);
        assert.deepEqual(acked, numbers);
        for (const n of numbers) raw.send({ cmd: 'pubrel', messageId: n, reasonCode: 0 });
        const got: string[] = [];
        for (const _ of numbers) got.push(String((await watcher.next('publish')).payload));
        assert.deepEqual(got, numbers.map(String));
      }
    },
  },
  {
    v5: '3.3.2-4 3.3.2-15 3.3.2-16 3.3.2-17 3.3.2-18 3.3.2-20',
    what: 'properties come as they were sent, user properties in their order',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, { topic: bench.topic(), qos: 0 });
      const raw = await bench.connect('p');
      const pair = (name: string, value: string) => Buffer.concat([hex('26'), stringOf(name), stringOf(value)]);
      const user = Buffer.concat([pair('b', '1'), pair('a', '2'), pair('b', '3'), pair('0', '4')]);
      const properties = Buffer.concat([
        hex('01 01'),
        hex('03'),
        stringOf('text/plain'),
        hex('08'),
        stringOf('answer'),
        hex('09 00 02 01 02'),
        user,
      ]);
      const seen: Buffer[] = [];
      watcher.socket.on('data', (chunk: Buffer) => seen.push(chunk));
      raw.socket.write(
        packetOf(
          0x30,
          Buffer.concat([stringOf(bench.topic()), Buffer.from([properties.length]), properties, hex('78')]),
        ),
      );
      const { properties: parsed } = await watcher.next('publish');
      assert.equal(parsed.payloadFormatIndicator, true);
      assert.deepEqual(
        [parsed.contentType, parsed.responseTopic, [...parsed.correlationData]],
        ['text/plain', 'answer', [1, 2]],
      );
      assert.ok(Buffer.concat(seen).includes(user), 'byte for byte');
    },
  },
  {
    v5: '3.3.2-5 3.3.2-6',
    what: 'a queued message has what is left of its expiry, and one that has expired does not come',
    run: async (bench) => {
      const away = await bench.connect('a', bench.kept());
      await bench.subscribe(away, bench.topic('#'));
      away.send({ cmd: 'disconnect' });
      await away.gone();
      const publisher = await bench.connect('p');
      const expiring = (s: number) => ({ properties: { messageExpiryInterval: s } });
      await bench.publish(publisher, bench.topic(), 'short', expiring(1));
      await bench.publish(publisher, bench.topic(), 'long', expiring(100));
      await new Promise((resolve) => setTimeout(resolve, 2_100));
      const back = await bench.connect('a', bench.kept());
      const { payload, properties } = await back.next('publish');
      assert.equal(String(payload), 'long');
      assert.ok(properties.messageExpiryInterval >= 90 && properties.messageExpiryInterval <= 98);
    },
  },
  {
    v5: '3.3.2-7 3.3.2-12',
    what: 'a topic alias stands for its topic, in its own connection only',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, { topic: bench.topic('#'), qos: 0 });
      const raw = await bench.connect('p');
      raw.publish(bench.topic('x'), 'named', 0, undefined, { properties: { topicAlias: 1 } });
      raw.publish('', 'aliased', 0, undefined, { properties: { topicAlias: 1 } });
      await watcher.next('publish');
      assert.equal((await watcher.next('publish')).topic, bench.topic('x'));
      const other = await bench.connect('o');
      other.publish('', 'nobody knows', 0, undefined, { properties: { topicAlias: 1 } });
      await other.gone();
    },
  },
];
