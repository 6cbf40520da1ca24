import assert from 'node:assert/strict';
import { until } from '../helpers/wait.js';
import { type Clause, codeOf, connectOf, hex, packetOf, SESSION_S, stringOf } from './clause.js';

const will = (topic: string, more: object = {}) => ({
  will: { topic, payload: Buffer.from('will'), qos: 1, retain: false, ...more },
});

/** CONNECT, CONNACK, DISCONNECT, PINGREQ. */
export const connecting: readonly Clause[] = [
  {
    v4: '3.1.0-1',
    v5: '3.1.0-1',
    what: 'the first packet is a CONNECT',
    run: async (bench) => {
      const raw = await bench.open();
      raw.send({ cmd: 'pingreq' });
      await raw.gone();
      assert.deepEqual(raw.packets, []);
    },
  },
  {
    v4: '3.1.0-2',
    v5: '3.1.0-2',
    what: 'a second CONNECT ends the connection',
    run: async (bench) => {
      const raw = await bench.connect('a');
      raw.socket.write(connectOf(bench.version, `${bench.name}-a`));
      await raw.gone();
    },
  },
  {
    v4: '3.1.2-1',
    v5: '3.1.2-1',
    what: 'another protocol name is not served',
    run: async (bench) => {
      const raw = await bench.open();
      raw.socket.write(connectOf(bench.version, bench.name, { name: 'MQTX' }));
      await raw.gone();
      assert.ok(!raw.packets.some((packet) => packet.cmd === 'connack' && codeOf(packet) === 0));
    },
  },
  {
    v4: '3.1.2-2',
    v5: '3.1.2-2',
    what: 'an unknown protocol level is refused with 1 or 0x84',
    run: async (bench) => {
      const raw = await bench.open();
      raw.socket.write(connectOf(bench.version, bench.name, { level: 9 }));
      await raw.gone();
      assert.ok(raw.packets.every((packet) => packet.cmd === 'connack' && codeOf(packet) !== 0));
    },
  },
  {
    v4: '3.1.2-3',
    v5: '3.1.2-3',
    what: 'the reserved flag of CONNECT is 0',
    run: async (bench) => {
      const raw = await bench.open();
      raw.socket.write(connectOf(bench.version, bench.name, { flags: 3 }));
      await raw.gone();
      assert.ok(!raw.packets.some((packet) => packet.cmd === 'connack' && codeOf(packet) === 0));
    },
  },
  ...(
    [
      ['3.1.2-13', '3.1.2-11', 'without a will its QoS is 0', 0x0a],
      ['3.1.2-15', '3.1.2-13', 'without a will its retain flag is 0', 0x22],
      ['3.1.2-14', '3.1.2-12', 'the QoS of a will is not 3', 0x1e],
    ] as const
  ).map(([v4, v5, what, flags]): Clause => {
    return {
      v4,
      v5,
      what,
      run: async (bench) => {
        const raw = await bench.open();
        const rest =
          flags & 4 ? Buffer.concat([hex(bench.version === 5 ? '00' : ''), stringOf('w'), stringOf('x')]) : undefined;
        raw.socket.write(connectOf(bench.version, bench.name, rest ? { flags, rest } : { flags }));
        await raw.gone();
        assert.ok(!raw.packets.some((packet) => packet.cmd === 'connack' && codeOf(packet) === 0));
      },
    };
  }),
  {
    v4: '3.1.2-22',
    what: 'no password without a user name',
    run: async (bench) => {
      const raw = await bench.open();
      raw.socket.write(connectOf(4, bench.name, { flags: 0x42, rest: stringOf('secret') }));
      await raw.gone();
      assert.ok(!raw.packets.some((packet) => packet.cmd === 'connack' && codeOf(packet) === 0));
    },
  },
  {
    v4: '3.1.2-24',
    v5: '3.1.2-22',
    what: 'a client is closed that is silent for one and a half keepalives',
    run: async (bench) => {
      const raw = await bench.connect('a', { keepalive: 1 });
      await raw.gone();
    },
  },
  {
    v4: '3.1.2-8',
    v5: '3.1.2-8',
    what: 'a will is published when the connection breaks',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, bench.topic('#'));
      const dying = await bench.connect('a', will(bench.topic('w')));
      dying.socket.destroy();
      assert.equal(String((await watcher.next('publish')).payload), 'will');
    },
  },
  {
    v4: '3.1.2-10 3.14.4-3',
    v5: '3.1.2-10 3.14.4-3',
    what: 'a will is not published after DISCONNECT',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, bench.topic('#'));
      const leaving = await bench.connect('a', will(bench.topic('w')));
      leaving.send({ cmd: 'disconnect', reasonCode: 0 });
      await leaving.gone();
      assert.deepEqual(await bench.rest(watcher), []);
    },
  },
  {
    v5: '3.14.4-3',
    what: 'DISCONNECT with reason 4 publishes the will',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, bench.topic('#'));
      const leaving = await bench.connect('a', will(bench.topic('w')));
      leaving.send({ cmd: 'disconnect', reasonCode: 4 });
      assert.equal(String((await watcher.next('publish')).payload), 'will');
    },
  },
  {
    v4: '3.1.2-16 3.1.2-17',
    v5: '3.1.2-14 3.1.2-15',
    what: 'a will is retained if it says so, and not otherwise',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, bench.topic('#'));
      for (const retain of [false, true]) {
        const dying = await bench.connect('a', will(bench.topic(String(retain)), { retain }));
        dying.socket.destroy();
        await watcher.next('publish');
      }
      const late = await bench.connect('l');
      await bench.subscribe(late, bench.topic('#'));
      assert.equal((await late.next('publish')).topic, bench.topic('true'));
      assert.deepEqual(await bench.rest(late), []);
    },
  },
  {
    v5: '3.1.3-9',
    what: 'a will with a delay is called off when the client is back before',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, bench.topic('#'));
      const delayed = will(bench.topic('w'), { properties: { willDelayInterval: 2 } });
      const first = await bench.connect('a', bench.kept(delayed));
      first.socket.destroy();
      await bench.connect('a', bench.kept());
      const second = await bench.connect('b', bench.kept(delayed));
      second.socket.destroy();
      await watcher.next('publish');
      assert.deepEqual(await bench.rest(watcher), [], 'that was the one of the client that stayed away');
    },
  },
  {
    v4: '3.1.3-5 3.1.3-6',
    v5: '3.1.3-5',
    what: 'client ids of 1 to 23 letters and digits are taken',
    run: async (bench) => {
      for (const id of ['x', '0123456789abcdefghijklMNOPQRSTUVWXYZ'.slice(0, 23)]) {
        const raw = await bench.open();
        raw.socket.write(connectOf(bench.version, `${id}`));
        assert.equal(codeOf(await raw.next('connack')), 0);
      }
    },
  },
  {
    v4: '3.1.3-7 3.1.3-8 3.2.2-4 3.2.2-5',
    what: 'no client id for a session that is kept: refused with 2, session present 0, and closed',
    run: async (bench) => {
      const raw = await bench.open();
      raw.socket.write(connectOf(4, '', { flags: 0 }));
      const connack = await raw.next('connack');
      assert.deepEqual([connack.returnCode, connack.sessionPresent], [2, false]);
      await raw.gone();
    },
  },
  {
    v5: '3.1.3-6 3.1.3-7 3.2.2-16',
    what: 'a client without an id gets one of its own',
    run: async (bench) => {
      const ids = [];
      for (const _ of [1, 2]) {
        const raw = await bench.open();
        raw.socket.write(connectOf(5, ''));
        ids.push((await raw.next('connack')).properties.assignedClientIdentifier);
      }
      assert.ok(ids[0] && ids[1] && ids[0] !== ids[1]);
    },
  },
  {
    v4: '3.1.4-2',
    v5: '3.1.4-3',
    what: 'a second connection with the same id ends the first, and tells a client of MQTT 5 why',
    mosquitto: 'does not say why',
    run: async (bench) => {
      const first = await bench.connect('a');
      const second = await bench.connect('a');
      if (bench.version === 5) assert.equal((await first.next('disconnect')).reasonCode, 0x8e);
      await first.gone();
      await second.ping();
    },
  },
  {
    v4: '3.1.4-5',
    v5: '3.1.4-6',
    what: 'nothing that follows a refused CONNECT is done',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, bench.topic('#'));
      const raw = await bench.open();
      const body = Buffer.concat([stringOf(bench.topic()), hex(bench.version === 5 ? '00' : ''), Buffer.from('no')]);
      const refused = connectOf(bench.version, bench.name, { level: 9 });
      raw.socket.write(Buffer.concat([refused, packetOf(0x30, body)]));
      await raw.gone();
      assert.deepEqual(await bench.rest(watcher), []);
    },
  },
  {
    v4: '3.2.0-1 3.1.4-4',
    v5: '3.2.0-1 3.2.0-2 3.1.4-5',
    what: 'CONNACK comes first, and once, also with a queue that waits',
    run: async (bench) => {
      const away = await bench.connect('a', bench.kept());
      await bench.subscribe(away, bench.topic('#'));
      away.send({ cmd: 'disconnect' });
      await away.gone();
      const publisher = await bench.connect('p');
      for (let n = 0; n < 5; n++) await bench.publish(publisher, bench.topic(), String(n));
      const back = await bench.dial('a', bench.kept());
      await until('five messages', () => back.packets.filter(({ cmd }) => cmd === 'publish').length === 5);
      assert.deepEqual(
        [back.packets[0]?.cmd, back.packets.filter(({ cmd }) => cmd === 'connack').length],
        ['connack', 1],
      );
    },
  },
  {
    v4: '3.2.2-1 3.2.2-2 3.2.2-3 3.1.2-6',
    v5: '3.2.2-2 3.2.2-3 3.1.2-4 3.1.2-5 3.1.2-6',
    what: 'session present says whether there was one, and a clean start forgets it',
    run: async (bench) => {
      const present: boolean[] = [];
      for (const options of [bench.kept(), bench.kept(), bench.kept({ clean: true }), { clean: true }, bench.kept()]) {
        const raw = await bench.dial('a', options);
        present.push((await raw.next('connack')).sessionPresent);
        raw.send({ cmd: 'disconnect' });
        await raw.gone();
      }
      assert.deepEqual(present, [false, true, false, false, false]);
    },
  },
  {
    v5: '3.1.2-23',
    what: 'a session ends when its expiry has passed, and not before',
    run: async (bench) => {
      const short = bench.kept({ properties: { sessionExpiryInterval: 2 } });
      const visit = async (): Promise<boolean> => {
        const raw = await bench.dial('a', short);
        const { sessionPresent } = await raw.next('connack');
        raw.send({ cmd: 'disconnect' });
        await raw.gone();
        return sessionPresent;
      };
      assert.deepEqual([await visit(), await visit()], [false, true]);
      await until('it has expired', async () => {
        await new Promise((resolve) => setTimeout(resolve, 3_000));
        return !(await visit());
      });
    },
  },
  {
    v5: '3.14.2-2',
    what: 'DISCONNECT cannot give a session to a client that asked for none',
    run: async (bench) => {
      const raw = await bench.connect('a');
      raw.send({ cmd: 'disconnect', reasonCode: 0, properties: { sessionExpiryInterval: SESSION_S } });
      assert.equal((await raw.next('disconnect')).reasonCode, 0x82);
      await raw.gone();
    },
  },
  {
    v5: '4.12.0-1',
    what: 'an authentication method that is not known is refused',
    run: async (bench) => {
      const raw = await bench.dial('a', { properties: { authenticationMethod: 'none-such' } });
      assert.ok([0x8c, 0x87].includes((await raw.next('connack')).reasonCode));
      await raw.gone();
    },
  },
  {
    v4: '3.12.4-1',
    v5: '3.12.4-1',
    what: 'PINGREQ is answered',
    run: async (bench) => (await bench.connect('a')).ping(),
  },
  {
    v4: '3.14.1-1',
    v5: '3.14.1-1',
    what: 'the flags of DISCONNECT are 0: otherwise the will is published',
    run: async (bench) => {
      const watcher = await bench.connect('w');
      await bench.subscribe(watcher, bench.topic('#'));
      const raw = await bench.connect('a', will(bench.topic('w')));
      raw.socket.write(hex('e1 00'));
      await raw.gone();
      await watcher.next('publish');
    },
  },
  {
    v4: '1.5.3-1 1.5.3-2',
    v5: '1.5.4-1 1.5.4-2',
    what: 'a client id that is not UTF-8, or contains NUL, is not served',
    run: async (bench) => {
      for (const id of [Buffer.from([0x61, 0xff]), Buffer.from('a\0b'), Buffer.from([0xed, 0xa0, 0x80])]) {
        const raw = await bench.open();
        const head = [stringOf('MQTT'), Buffer.from([bench.version, 2, 0, 0]), hex(bench.version === 5 ? '00' : '')];
        raw.socket.write(packetOf(0x10, Buffer.concat([...head, stringOf(id)])));
        await raw.gone();
        assert.ok(!raw.packets.some((packet) => packet.cmd === 'connack' && codeOf(packet) === 0));
      }
    },
  },
];
