import assert from 'node:assert/strict';
import { type Clause, hex, packetOf, stringOf, type Version } from './clause.js';

const properties = (version: Version) => hex(version === 5 ? '00' : '');
const subscribeOf = (version: Version, first: number, ...rest: Buffer[]) =>
  packetOf(first, Buffer.concat([hex('00 07'), properties(version), ...rest]));

const BROKEN: readonly [v4: string | undefined, v5: string | undefined, what: string, of: (v: Version) => Buffer][] = [
  ['3.8.1-1', '3.8.1-1', 'a SUBSCRIBE with wrong flags', (v) => subscribeOf(v, 0x80, stringOf('a'), hex('00'))],
  ['3.8.3-3', '3.8.3-2', 'a SUBSCRIBE without a filter', (v) => subscribeOf(v, 0x82)],
  ['3.8.3-4', '3.8.3-5', 'a SUBSCRIBE with QoS 3', (v) => subscribeOf(v, 0x82, stringOf('a'), hex('03'))],
  ['3.8.3-4', '3.8.3-5', 'reserved bits of a subscription', (v) => subscribeOf(v, 0x82, stringOf('a'), hex('c0'))],
  [
    '2.3.1-1',
    '2.2.1-3',
    'packet id 0 in a SUBSCRIBE',
    (v) => packetOf(0x82, Buffer.concat([hex('00 00'), properties(v), stringOf('a'), hex('00')])),
  ],
  ['3.10.1-1', '3.10.1-1', 'an UNSUBSCRIBE with wrong flags', (v) => subscribeOf(v, 0xa0, stringOf('a'))],
  ['3.10.3-2', '3.10.3-2', 'an UNSUBSCRIBE without a filter', (v) => subscribeOf(v, 0xa2)],
  [
    undefined,
    '3.8.3-4',
    'no local on a shared subscription',
    (v) => subscribeOf(v, 0x82, stringOf('$share/g/a'), hex('04')),
  ],
];

/** What cannot be a filter: some brokers close, and some say so in the answer. */
const NO_FILTERS: readonly [v4: string, v5: string, filter: string][] = [
  ['4.7.1-2', '4.7.1-1', 'a/#/b'],
  ['4.7.1-2', '4.7.1-1', 'a#'],
  ['4.7.1-3', '4.7.1-2', 'a+'],
  ['4.7.1-3', '4.7.1-2', '+a/b'],
];

/** SUBSCRIBE, UNSUBSCRIBE, filters, subscription options, shared subscriptions. */
export const subscribing: readonly Clause[] = [
  ...BROKEN.map(([v4, v5, what, of]): Clause => {
    return {
      ...(v4 ? { v4 } : {}),
      ...(v5 ? { v5 } : {}),
      what: `${what} ends the connection`,
      ...(what.startsWith('no local') ? { mosquitto: 'lets it pass' } : {}),
      run: async (bench) => {
        const raw = await bench.connect('a');
        raw.socket.write(of(bench.version));
        await raw.gone();
        for (const packet of raw.packets) assert.ok(packet.cmd === 'disconnect' && (packet.reasonCode ?? 0) >= 0x80);
      },
    };
  }),
  ...NO_FILTERS.map(([v4, v5, filter]): Clause => {
    return {
      v4,
      v5,
      what: `${filter} is no filter`,
      run: async (bench) => {
        const raw = await bench.connect('a');
        const granted = await Promise.race([bench.subscribe(raw, filter), raw.gone()]);
        if (granted !== true) assert.ok((granted[0] as number) >= 0x80);
      },
    };
  }),
  {
    v4: '3.8.4-1 3.8.4-2 3.8.4-5 3.9.3-1',
    v5: '3.8.4-1 3.8.4-2 3.8.4-6 3.9.3-1',
    what: 'SUBACK has the id and one code for each filter, in their order, also for the same filter twice',
    run: async (bench) => {
      const raw = await bench.connect('a');
      const filters = ([2, 0, 1, 1] as const).map((qos, i) => ({ topic: bench.topic(String(Math.min(i, 2))), qos }));
      raw.send({ cmd: 'subscribe', messageId: 4_711, subscriptions: filters });
      const { messageId, granted } = await raw.next('suback');
      assert.deepEqual([messageId, granted], [4_711, [2, 0, 1, 1]]);
    },
  },
  {
    v4: '3.8.4-3 3.8.4-4',
    v5: '3.8.4-3 3.8.4-4 3.3.1-9',
    what: 'the same filter again replaces the subscription and brings the retained messages again',
    run: async (bench) => {
      const publisher = await bench.connect('p');
      await bench.publish(publisher, bench.topic(), 'kept', { retain: true });
      const raw = await bench.connect('a');
      for (const qos of [1, 0]) {
        await bench.subscribe(raw, { topic: bench.topic(), qos });
        const packet = await raw.next('publish');
        assert.deepEqual([packet.qos, packet.retain, String(packet.payload)], [qos, true, 'kept']);
      }
      await bench.publish(publisher, bench.topic(), 'live');
      assert.equal((await raw.next('publish')).qos, 0);
      assert.deepEqual(await bench.rest(raw), []);
    },
  },
  {
    v4: '3.10.4-2 3.10.4-4 3.10.4-5 3.10.4-6',
    v5: '3.10.4-2 3.10.4-4 3.10.4-5 3.11.3-1',
    what: 'UNSUBACK comes in any case, and the filters it names match no more',
    run: async (bench) => {
      const raw = await bench.connect('a');
      await bench.subscribe(raw, ...['x', 'y', 'z'].map((rest) => ({ topic: bench.topic(rest), qos: 0 })));
      const unsubscriptions = ['x', 'never', 'z'].map((rest) => bench.topic(rest));
      raw.send({ cmd: 'unsubscribe', messageId: 815, unsubscriptions });
      const { messageId, granted } = await raw.next('unsuback');
      assert.equal(messageId, 815);
      if (bench.version === 5) assert.deepEqual(granted, [0, 0x11, 0]);
      const publisher = await bench.connect('p');
      for (const rest of ['x', 'y', 'z']) await bench.publish(publisher, bench.topic(rest), rest);
      assert.deepEqual(await bench.rest(raw), ['y']);
    },
  },
  {
    v4: '3.10.4-1',
    v5: '3.10.4-1',
    what: 'filters are compared as they are written',
    run: async (bench) => {
      const raw = await bench.connect('a');
      await bench.subscribe(raw, { topic: bench.topic('+'), qos: 0 });
      raw.send({ cmd: 'unsubscribe', messageId: 1, unsubscriptions: [bench.topic('#'), bench.topic('a')] });
      await raw.next('unsuback');
      const publisher = await bench.connect('p');
      await bench.publish(publisher, bench.topic(), 'still');
      assert.deepEqual(await bench.rest(raw), ['still']);
    },
  },
  {
    v4: '3.10.4-3',
    v5: '3.10.4-3',
    what: 'a delivery that has begun is finished after UNSUBSCRIBE',
    run: async (bench) => {
      const raw = await bench.connect('a');
      await bench.subscribe(raw, bench.topic());
      const publisher = await bench.connect('p');
      publisher.publish(bench.topic(), 'x', 2, 1);
      await publisher.next('pubrec');
      publisher.send({ cmd: 'pubrel', messageId: 1 });
      const { messageId } = await raw.next('publish');
      raw.send({ cmd: 'unsubscribe', messageId: 1, unsubscriptions: [bench.topic()] });
      await raw.next('unsuback');
      raw.send({ cmd: 'pubrec', messageId });
      assert.equal((await raw.next('pubrel')).messageId, messageId);
    },
  },
  {
    v4: '4.7.1-2 4.7.1-3 4.7.3-4',
    v5: '4.7.1-1 4.7.1-2 4.7.3-4',
    what: 'filters match level by level, with letters as they are',
    run: async (bench) => {
      const table: readonly [string, string[]][] = [
        ['s/#', ['s', 's/a', 's/a/b']],
        ['s/+', ['s/a', 's/']],
        ['s/+/b', ['s/a/b']],
        ['S/a', []],
        ['s//a', ['s//a']],
      ];
      const topics = ['s', 's/a', 's/a/b', 's/', 's//a', 'S/b', 'é', 'e\u0301'];
      const publisher = await bench.connect('p');
      for (const [i, [filter, expected]] of table.entries()) {
        const raw = await bench.connect(`a${i}`);
        await bench.subscribe(raw, { topic: bench.topic(filter), qos: 0 });
        for (const topic of topics) await bench.publish(publisher, bench.topic(topic), topic);
        const also = filter === 's/#' ? ['s/', 's//a'] : [];
        assert.deepEqual((await bench.rest(raw)).sort(), [...expected, ...also].sort(), filter);
      }
    },
  },
  {
    v4: '4.7.2-1',
    v5: '4.7.2-1',
    what: 'a wildcard at the beginning does not match topics of the server',
    run: async (bench) => {
      const raw = await bench.connect('a');
      await bench.subscribe(raw, { topic: '+/broker/version', qos: 0 });
      assert.deepEqual(await bench.rest(raw), []);
      await bench.subscribe(raw, { topic: '$SYS/broker/version', qos: 0 });
      assert.match(String((await raw.next('publish')).payload), / version /);
    },
  },
  {
    v4: '1.5.3-3',
    v5: '1.5.4-3',
    what: 'a byte order mark is a character of the topic',
    run: async (bench) => {
      const raw = await bench.connect('a');
      await bench.subscribe(raw, { topic: bench.topic('#'), qos: 0 });
      const publisher = await bench.connect('p');
      const body = Buffer.concat([stringOf(bench.topic('\ufeffx')), properties(bench.version), Buffer.from('y')]);
      publisher.socket.write(packetOf(0x30, body));
      await raw.next('publish').then(({ topic }) => assert.equal(topic, bench.topic('\ufeffx')));
    },
  },
  {
    v5: '3.8.3-3',
    what: 'no local keeps a client’s own messages from it',
    run: async (bench) => {
      const raw = await bench.connect('a');
      await bench.subscribe(raw, { topic: bench.topic(), qos: 0, nl: true });
      await bench.publish(raw, bench.topic(), 'own');
      await bench.publish(await bench.connect('p'), bench.topic(), 'other');
      assert.deepEqual(await bench.rest(raw), ['other']);
    },
  },
  {
    v5: '3.3.1-10 3.3.1-11',
    what: 'retain handling 1 brings retained messages to a new subscription only, 2 never',
    run: async (bench) => {
      await bench.publish(await bench.connect('p'), bench.topic(), 'kept', { retain: true });
      const raw = await bench.connect('a');
      for (let i = 0; i < 2; i++) await bench.subscribe(raw, { topic: bench.topic(), qos: 0, rh: 1 });
      assert.deepEqual(await bench.rest(raw), ['kept']);
      const never = await bench.connect('n');
      await bench.subscribe(never, { topic: bench.topic(), qos: 0, rh: 2 });
      assert.deepEqual(await bench.rest(never), []);
    },
  },
  {
    v5: '3.3.1-12 3.3.1-13',
    what: 'retain as published decides about the flag of live messages',
    run: async (bench) => {
      const publisher = await bench.connect('p');
      for (const rap of [false, true]) {
        const raw = await bench.connect(`a${rap}`);
        await bench.subscribe(raw, { topic: bench.topic(String(rap)), qos: 0, rap });
        for (const retain of [false, true]) {
          await bench.publish(publisher, bench.topic(String(rap)), 'x', { retain });
          assert.equal((await raw.next('publish')).retain, rap && retain);
        }
      }
    },
  },
  {
    v5: '3.3.4-3 3.3.4-4 3.3.4-5',
    what: 'a message has the identifiers of all subscriptions that match it',
    run: async (bench) => {
      const raw = await bench.connect('a');
      for (const [filter, subscriptionIdentifier] of [
        [bench.topic('+'), 3],
        [bench.topic('a'), 300],
      ] as const) {
        const subscriptions = [{ topic: filter, qos: 0 }];
        raw.send({ cmd: 'subscribe', messageId: 1, subscriptions, properties: { subscriptionIdentifier } });
        await raw.next('suback');
      }
      await bench.publish(await bench.connect('p'), bench.topic('a'), 'x');
      const ids: number[] = [];
      do ids.push(...[(await raw.next('publish')).properties.subscriptionIdentifier].flat());
      while (ids.length < 2);
      assert.deepEqual(ids.sort(), [3, 300]);
    },
  },
  ...['$share//a', '$share/+/a', '$share/g'].map((filter): Clause => {
    return {
      v5: '4.8.2-1 4.8.2-2',
      what: `${filter} is no shared subscription`,
      mosquitto: 'takes it',
      run: async (bench) => {
        const raw = await bench.connect('a');
        const granted = await Promise.race([bench.subscribe(raw, filter), raw.gone()]);
        if (granted !== true) assert.ok((granted[0] as number) >= 0x80);
      },
    };
  }),
  {
    v5: '4.8.2-4 4.8.2-5',
    what: 'of a shared group one member gets each message, with the QoS of its own subscription',
    run: async (bench) => {
      const members = [await bench.connect('a'), await bench.connect('b')];
      for (const [qos, member] of members.entries())
        await bench.subscribe(member, { topic: `$share/${bench.name}/${bench.topic()}`, qos });
      const publisher = await bench.connect('p');
      for (let n = 0; n < 10; n++) await bench.publish(publisher, bench.topic(), String(n));
      const got: string[] = [];
      for (const [qos, member] of members.entries()) {
        const own = member.packets.filter(({ cmd }) => cmd === 'publish');
        for (const packet of own) assert.ok('qos' in packet && packet.qos === qos);
        got.push(...(await bench.rest(member)));
      }
      assert.deepEqual(got.map(Number).sort(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    },
  },
];
