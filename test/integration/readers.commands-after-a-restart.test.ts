import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import mqtt from 'mqtt';
import { configFile } from '../helpers/config-file.js';
import { Program } from '../helpers/program.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';
import { FakeRtu } from './readers.fake-rtu.js';

/** A clock ahead of the gateway's: only a memory on disk can tell a command of before a restart from one after it. */
const CLOCK_AHEAD_MS = 20_000;

/** A device, and the config of a gateway on it that waits long for an answer. */
async function plant(t: TestContext) {
  const device = await FakeRtu.listen(t);
  if (device.endpoint.kind !== 'tcp') throw new Error('a socket');
  const data = join(tempDir(t), 'data');
  const file = configFile(
    t,
    `gateway: { id: line-1, dataDir: ${data} }
broker: { listeners: [{ url: "mqtt://127.0.0.1:0", anonymous: true }] }
upstream: { url: "mqtt://127.0.0.1:1" }
spool: { diskFreeMin: 0B }
readers:
  - type: modbus
    url: "rtu+tcp://127.0.0.1:${device.endpoint.port}"
    timeout: 1m
    commands: {}
    devices:
      - asset: press
        groups: [{ every: 1h, tags: [{ name: speed, at: "hr:10", type: u16, write: {} }] }]
  - type: modbus
    url: "rtu+tcp://127.0.0.1:1"
    commands: {}
    devices:
      - asset: another
        groups: [{ every: 1h, tags: [{ name: speed, at: "hr:10", type: u16, write: {} }] }]
`,
  );
  return { device, file, writes: () => device.requests.filter((request) => request[1] === 6).length };
}

/** A life of the gateway, and a client that sees the outcomes told in it. */
async function life(t: TestContext, file: string) {
  const program = await Program.open(t, 'gateway', '--config', file);
  const { mqtt: addresses } = await program.ready();
  const client = await mqtt.connectAsync(addresses[0] as string, { clientId: 'panel', clean: false });
  client.on('error', () => {});
  t.after(() => client.endAsync(true));
  const outcomes: unknown[][] = [];
  client.on('message', (_, payload) => {
    const { id, outcome, code } = JSON.parse(payload.toString());
    outcomes.push([id, outcome, code]);
  });
  await client.subscribeAsync('holdfast/line-1/result/press/speed', { qos: 1 });
  const send = (id: string) =>
    client.publishAsync(
      'holdfast/line-1/command/press/speed',
      JSON.stringify({ id, ts: Date.now() + CLOCK_AHEAD_MS, value: 7 }),
      { qos: 1 },
    );
  const leave = async (how: 'SIGTERM' | 'SIGKILL') => {
    program.signal(how);
    await program.ended;
    await client.endAsync(true);
  };
  return { outcomes, send, leave };
}

test('a command that was carried out is not repeated after a restart, and its outcome is known', async (t) => {
  const { device, file, writes } = await plant(t);
  const first = await life(t, file);
  await until('polled', () => device.requests.length > 0);
  await first.send('a');
  await until('the outcome', () => first.outcomes.length > 0);
  assert.deepEqual(first.outcomes, [['a', 'done', undefined]], 'one outcome, though two readers share the topic');
  await first.leave('SIGTERM');
  const second = await life(t, file);
  await second.send('a');
  await until('the outcome again', () => second.outcomes.some(([id]) => id === 'a'));
  assert.deepEqual(second.outcomes.at(-1), ['a', 'done', undefined]);
  assert.equal(writes(), 1);
  await second.send('b');
  await until('another one', () => second.outcomes.some(([id, word]) => id === 'b' && word === 'done'));
  assert.equal(writes(), 2);
});

test('a gateway killed in the middle of a write says so when it is back, and does not write again', async (t) => {
  const { device, file, writes } = await plant(t);
  const first = await life(t, file);
  await until('polled', () => device.requests.length > 0);
  device.behave = (asked) => (asked[1] === 6 ? [] : [device.answer(asked)]);
  await first.send('a');
  await until('the write at the device', () => writes() === 1);
  await first.leave('SIGKILL');
  const second = await life(t, file);
  await second.send('a');
  await until('told', () => second.outcomes.length > 0);
  assert.ok(
    second.outcomes.every((each) => each.join() === 'a,unknown,interrupted'),
    JSON.stringify(second.outcomes),
  );
  assert.equal(writes(), 1);
});
