import assert from 'node:assert/strict';
import { until } from '../helpers/wait.js';
import type { Clause } from './clause.js';

/** What survives a connection, and flow control. */
export const sessions: readonly Clause[] = [
  {
    v4: '4.4.0-1 3.1.2-4 3.3.1-1',
    v5: '4.4.0-1 3.1.2-5 3.3.1-1',
    what: 'what was not acknowledged is sent again with the same ids and DUP, a released one as PUBREL',
    run: async (bench) => {
      const first = await bench.connect('a', bench.kept());
      await bench.subscribe(first, bench.topic());
      const publisher = await bench.connect('p');
      publisher.publish(bench.topic(), 'two', 2, 1);
      await publisher.next('pubrec');
      publisher.send({ cmd: 'pubrel', messageId: 1 });
      const two = await first.next('publish');
      await bench.publish(publisher, bench.topic(), 'one');
      const one = await first.next('publish');
      first.send({ cmd: 'pubrec', messageId: two.messageId });
      await first.next('pubrel');
      first.socket.destroy();
      const second = await bench.connect('a', bench.kept());
      assert.equal((await second.next('pubrel')).messageId, two.messageId);
      const again = await second.next('publish');
      assert.deepEqual([again.messageId, again.dup, String(again.payload)], [one.messageId, true, 'one']);
    },
  },
  {
    v4: '4.1.0-1 4.5.0-1 3.1.2-5',
    v5: '4.1.0-1 4.5.0-1 3.1.2-23',
    what: 'messages for a client that is away wait for it, in their order, without being asked for again',
    run: async (bench) => {
      const away = await bench.connect('a', bench.kept());
      await bench.subscribe(away, bench.topic('#'));
      away.send({ cmd: 'disconnect' });
      await away.gone();
      const publisher = await bench.connect('p');
      for (let n = 0; n < 20; n++) await bench.publish(publisher, bench.topic(), String(n));
      const back = await bench.connect('a', bench.kept());
      const got: number[] = [];
      for (let n = 0; n < 20; n++) {
        const { messageId, payload, dup } = await back.next('publish');
        assert.equal(dup, false);
        back.send({ cmd: 'puback', messageId });
        got.push(Number(String(payload)));
      }
      assert.deepEqual(
        got,
        Array.from({ length: 20 }, (_, n) => n),
      );
    },
  },
  {
    v4: '3.1.2-6',
    v5: '3.1.2-4',
    what: 'a clean start forgets subscriptions and queue',
    run: async (bench) => {
      const first = await bench.connect('a', bench.kept());
      await bench.subscribe(first, { topic: bench.topic(), qos: 1 });
      first.send({ cmd: 'disconnect' });
      await first.gone();
      const publisher = await bench.connect('p');
      await bench.publish(publisher, bench.topic(), 'missed');
      const clean = await bench.connect('a', { clean: true });
      await bench.publish(publisher, bench.topic(), 'live');
      assert.deepEqual(await bench.rest(clean), []);
    },
  },
  {
    v4: '4.3.3-2',
    v5: '4.3.3-12 4.4.0-1',
    what: 'a QoS 2 message that is sent again in the next connection is delivered once',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, { topic: bench.topic(), qos: 0 });
      const first = await bench.connect('a', bench.kept());
      first.publish(bench.topic(), 'once', 2, 8);
      await first.next('pubrec');
      first.socket.destroy();
      const second = await bench.connect('a', bench.kept());
      second.publish(bench.topic(), 'once', 2, 8, { dup: true });
      await second.next('pubrec');
      second.send({ cmd: 'pubrel', messageId: 8 });
      await second.next('pubcomp');
      assert.deepEqual(await bench.rest(watcher), ['once']);
    },
  },
  {
    v5: '3.3.4-7 3.3.4-9 4.9.0-1 4.9.0-2 4.9.0-3',
    what: 'no more messages are open than Receive Maximum, QoS 0 and PING go on',
    run: async (bench) => {
      const raw = await bench.connect('a', { properties: { receiveMaximum: 2 } });
      await bench.subscribe(raw, { topic: bench.topic('1'), qos: 1 }, { topic: bench.topic('0'), qos: 0 });
      const publisher = await bench.connect('p');
      for (let n = 0; n < 6; n++) await bench.publish(publisher, bench.topic('1'), String(n));
      await until('two are open', () => raw.packets.length === 2);
      await raw.ping();
      assert.deepEqual(
        raw.packets.map(({ cmd }) => cmd),
        ['publish', 'publish'],
      );
      for (let n = 0; n < 6; n++) {
        const { messageId, payload } = await raw.next('publish');
        assert.equal(String(payload), String(n));
        raw.send({ cmd: 'puback', messageId });
      }
    },
  },
  {
    v5: '3.1.2-24 3.1.2-25',
    what: 'what is larger than a client’s Maximum Packet Size counts as sent',
    run: async (bench) => {
      const raw = await bench.connect('a', { properties: { maximumPacketSize: 100 } });
      await bench.subscribe(raw, { topic: bench.topic(), qos: 0 });
      const publisher = await bench.connect('p');
      await bench.publish(publisher, bench.topic(), 'x'.repeat(200));
      await bench.publish(publisher, bench.topic(), 'small');
      assert.deepEqual(await bench.rest(raw), ['small']);
    },
  },
  {
    v5: '3.1.2-26 3.1.2-27',
    what: 'a client that takes no topic aliases gets none',
    run: async (bench) => {
      const raw = await bench.connect('a', { properties: { topicAliasMaximum: 0 } });
      await bench.subscribe(raw, { topic: bench.topic(), qos: 0 });
      const publisher = await bench.connect('p');
      for (let n = 0; n < 3; n++) {
        await bench.publish(publisher, bench.topic(), String(n));
        const packet = await raw.next('publish');
        assert.deepEqual([packet.topic, packet.properties?.topicAlias], [bench.topic(), undefined]);
      }
    },
  },
  {
    v5: '3.1.2-29',
    what: 'a client that does not want to know the reasons gets none',
    run: async (bench) => {
      const raw = await bench.connect('a', { properties: { requestProblemInformation: false } });
      raw.publish('a/#', 'x', 1, 1);
      const packet = await raw.next('disconnect');
      assert.equal(packet.properties?.reasonString, undefined);
    },
  },
];
