import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadGatewayConfig } from '../../src/config/loader.js';
import { modbusOptions } from '../../src/gateway/modbus-options.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import { LONG_ORDERS, SHORT_ORDERS, TAG_TYPES } from '../../src/model/modbus.js';
import { GOOD } from '../../src/model/reading.js';
import type { Sample } from '../../src/readers/driver.js';
import { ModbusClient } from '../../src/readers/modbus/client.js';
import { parseEndpoint } from '../../src/readers/modbus/endpoint.js';
import { ModbusDriver } from '../../src/readers/modbus/modbus-driver.js';
import { configFile } from '../helpers/config-file.js';
import { Program } from '../helpers/program.js';
import { until } from '../helpers/wait.js';

/** Every type in every order that it can have, each with a hole behind it, and the kinds of meaning. */
function tagLines(): string[] {
  const lines: string[] = [];
  let address = 0;
  const at = (part = '') => {
    address += 6;
    return `"hr:${address}${part}"`;
  };
  for (const type of TAG_TYPES)
    for (const order of type.endsWith('64') ? [...SHORT_ORDERS, ...LONG_ORDERS] : SHORT_ORDERS) {
      const part = type === 'bool' ? '.9' : type.endsWith('i8') || type === 'u8' ? '.hi' : '';
      const more = type === 'string' ? ', length: 10' : '';
      lines.push(`{ name: ${type}-${order}, at: ${at(part)}, type: ${type}, order: ${order}${more} }`);
    }
  lines.push(
    `{ name: field, at: ${at('.4-7')}, type: u16 }`,
    `{ name: deep-field, at: ${at('.10-20')}, type: i32 }`,
    `{ name: narrow, at: ${at()}, type: string, length: 4, chars: low }`,
    `{ name: ranged, at: ${at()}, type: i16, range: { raw: [-4000, 20000], eng: [0, 100] } }`,
    `{ name: mode, at: ${at()}, type: u16, enum: { 0: off, 7: auto, 9: hand } }`,
    `{ name: picky, at: ${at()}, type: u16, invalid: [0, 1, 2, 3], scale: 0.1 }`,
    `{ name: inverter, at: ${at()}, type: u32, invalid: sunspec }`,
    '{ name: coil, at: "co:3", type: bool, write: {} }',
    '{ name: input, at: "di:0x10", type: bool }',
    '{ name: measured, at: "ir:7", type: f32 }',
    `{ name: setpoint, at: ${at()}, type: f32, order: CDAB, write: {} }`,
    `{ name: flag, at: ${at('.3')}, type: bool, write: {} }`,
  );
  return lines;
}

const text = `gateway: { id: g }
upstream: { url: "mqtt://h" }
readers:
  - type: modbus
    url: "tcp://192.0.2.20"
    commands: {}
    devices:
      - { asset: press, unit: 1, groups: [{ every: 100ms, tags: [${tagLines().join(',\n        ')}] }] }
      - { asset: oven, unit: 7, order: CDAB, groups: [{ every: 100ms, tags: [{ name: heat, at: "hr:1", type: f32 }] }] }
`;

test('a config is served as a device: good values of every type in every order, which change, and holes', async (t) => {
  const file = configFile(t, text);
  const { lines } = await Program.open(t, 'simulate', 'plc', '--port', '0', '--config', file);
  const endpoint = parseEndpoint(`tcp://127.0.0.1:${(lines[0] as { port: number }).port}`);
  const [reader] = loadGatewayConfig(file).readers;
  if (reader?.type !== 'modbus') throw new Error('a Modbus reader');
  const values = new Map<string, Set<unknown>>();
  const bad: Sample[] = [];
  const stop = new AbortController();
  const driver = new ModbusDriver(
    { ...modbusOptions(reader), endpoint },
    {
      emit: async ({ device, samples }) => {
        for (const sample of samples) {
          if (sample.quality !== GOOD) bad.push(sample);
          const seen = values.get(`${device}/${sample.tag}`) ?? new Set();
          values.set(`${device}/${sample.tag}`, seen.add(sample.value));
        }
      },
      status: () => {},
      clock: systemClock,
      log: silentLog,
      signal: stop.signal,
    },
  );
  t.after(() => {
    stop.abort();
    return driver.stop();
  });
  driver.start();
  const names = [...tagLines().map((line) => `press/${/name: ([\w-]+)/.exec(line)?.[1]}`), 'oven/heat'];
  await until('every value', () => names.every((name) => values.has(name)), 20_000);
  await until('changes', () => names.filter((name) => values.get(name)?.size === 1).length === 0, 30_000);
  assert.deepEqual(bad, []);
  for (const mode of values.get('press/mode') ?? []) assert.ok(['off', 'auto', 'hand'].includes(mode as string));

  for (const [tag, value] of [
    ['setpoint', 42.5],
    ['coil', true],
    ['coil', false],
    ['flag', true],
  ] as const) {
    const { outcome, readBack } = await driver.write({ device: 'press', tag, value }, () => true);
    assert.deepEqual([outcome, readBack?.value], ['done', value], tag);
  }

  const client = await ModbusClient.connect(
    { endpoint, connectTimeoutMs: 5000, signal: stop.signal },
    { onDown: () => {}, onLate: () => {} },
  );
  t.after(() => client.close());
  const read = (unit: number, address: number, quantity: number) =>
    client.read({ fc: 3, unit, address, quantity }, 5000);
  await assert.rejects(read(1, 0, 1), { code: 'device.exception' }, 'a hole');
  await assert.rejects(read(1, 6, 2), (error: { values?: { code?: number } }) => error.values?.code === 2);
  await assert.rejects(read(2, 6, 1), (error: { values?: { code?: number } }) => error.values?.code === 11);
});

test('of several readers one is chosen, and what is not there is said', async (t) => {
  const reader = (url: string, asset: string) =>
    `  - { type: modbus, url: "${url}", devices: [{ asset: ${asset}, groups: [{ every: 1s, tags: [{ name: a, at: "hr:1", type: u16 }] }] }] }\n`;
  const head = 'gateway: { id: g }\nupstream: { url: "mqtt://h" }\nreaders:\n';
  const file = configFile(t, head + reader('tcp://192.0.2.1', 'a') + reader('tcp://192.0.2.2', 'b'));
  const refused = async (...args: string[]) => {
    const program = new Program(t, ['simulate', 'plc', '--port', '0', '--config', file, ...args]);
    const { code } = await program.endsByItself();
    return [code, program.stderr] as const;
  };
  const [code, both] = await refused();
  assert.equal(code, 64);
  assert.match(both, /unit 1 is there twice.*b[\s\S]*--reader/);
  assert.match((await refused('--reader', 'tcp://192.0.2.3'))[1], /no Modbus reader with the url[\s\S]*192\.0\.2\.1/);
  await Program.open(t, 'simulate', 'plc', '--port', '0', '--config', file, '--reader', 'tcp://192.0.2.2');
});
