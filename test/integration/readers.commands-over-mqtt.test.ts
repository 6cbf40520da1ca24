import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import mqtt from 'mqtt';
import { loadGatewayConfig } from '../../src/config/loader.js';
import { Gateway } from '../../src/gateway/gateway.js';
import { silentLog } from '../../src/lib/log.js';
import { configFile } from '../helpers/config-file.js';
import { until } from '../helpers/wait.js';
import { FakeRtu } from './readers.fake-rtu.js';

/** A gateway on a device, and a client on its broker that keeps everything it is sent. */
async function started(t: TestContext, commands: string) {
  const device = await FakeRtu.listen(t);
  if (device.endpoint.kind !== 'tcp') throw new Error('a socket');
  const file = configFile(
    t,
    `gateway: { id: line-1 }
broker: { listeners: [{ url: "mqtt://127.0.0.1:0", anonymous: true }] }
upstream: { url: "mqtt://127.0.0.1:1" }
spool: { diskFreeMin: 0B }
readers:
  - type: modbus
    url: "rtu+tcp://127.0.0.1:${device.endpoint.port}"
    topic: "plant/{area}/{asset}/{metric}"
    ${commands}
    devices:
      - asset: press
        labels: { area: hall-1 }
        groups:
          - every: 50ms
            report: change
            tags:
              - { name: speed, at: "hr:10", type: u16${commands ? ', write: { max: 100 }' : ''} }
              - { name: fixed, at: "hr:11", type: u16 }
`,
  );
  const gateway = await Gateway.open(loadGatewayConfig(file), silentLog);
  t.after(() => gateway.close());
  const client = await mqtt.connectAsync(gateway.addresses.mqtt[0] as string);
  t.after(() => client.endAsync());
  const seen: { topic: string; body: Record<string, unknown> }[] = [];
  client.on('message', (topic, payload) => seen.push({ topic, body: JSON.parse(payload.toString()) }));
  await client.subscribeAsync(['plant/#', 'holdfast/line-1/result/#'], { qos: 1 });
  const send = (tag: string, body: object) =>
    client.publishAsync(`holdfast/line-1/command/press/${tag}`, JSON.stringify({ ts: Date.now(), ...body }), {
      qos: 1,
    });
  const outcomeOf = async (id: string) => {
    const result = await until(`the outcome of ${id}`, () => seen.find(({ body }) => body.id === id));
    return [result.topic, result.body.outcome, result.body.code] as const;
  };
  return { device, seen, send, outcomeOf };
}

test('a command over MQTT reaches the device, its outcome comes back, and then the reading', async (t) => {
  const { device, seen, send, outcomeOf } = await started(t, 'commands: {}');
  await until('the first reading', () => seen.some(({ topic }) => topic === 'plant/hall-1/press/speed'));
  await send('speed', { id: 'a', value: 77 });
  assert.deepEqual(await outcomeOf('a'), ['holdfast/line-1/result/press/speed', 'done', undefined]);
  assert.equal(device.registers.get(10), 77);
  await until('the changed reading', () =>
    seen.some(({ topic, body }) => topic === 'plant/hall-1/press/speed' && body.value === 77),
  );
  await send('speed', { id: 'b', value: 101 });
  assert.deepEqual((await outcomeOf('b')).slice(1), ['rejected', 'value']);
  await send('fixed', { id: 'c', value: 1 });
  assert.deepEqual((await outcomeOf('c')).slice(1), ['rejected', 'not-writable']);
  await send('speed', { id: 'd', value: 5, ts: Date.now() - 3_600_000 });
  assert.deepEqual((await outcomeOf('d')).slice(1), ['expired', undefined]);
  assert.equal(device.registers.get(10), 77);
  const fixed = seen.filter(({ topic }) => topic === 'plant/hall-1/press/fixed');
  assert.equal(fixed.length, 1, 'an unchanged value is told once');
});

test('without commands in the config nothing is ever written', async (t) => {
  const { device, seen, send } = await started(t, '');
  await until('the first reading', () => seen.some(({ topic }) => topic === 'plant/hall-1/press/speed'));
  await send('speed', { id: 'a', value: 77 });
  const asked = device.requests.length;
  await until('polls after it', () => device.requests.length > asked + 3);
  assert.ok(device.requests.every((request) => request[1] === 3));
  assert.ok(seen.every(({ body }) => body.id === undefined));
});
