import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { GOOD } from '../../src/model/reading.js';
import { ModbusClient } from '../../src/readers/modbus/client.js';
import { type Endpoint, SERIAL_DEFAULTS } from '../../src/readers/modbus/endpoint.js';
import type { ModbusDeviceOptions } from '../../src/readers/modbus/options.js';
import { peer, peerWith } from '../helpers/peers.js';
import { until } from '../helpers/wait.js';
import { drive, firstLineOf, serialPair } from './modbus-peers.js';

const SERVER = 'test/fixtures/pymodbus_server.py';
const python = peerWith('/usr/bin/python3', ['-c', 'import pymodbus, serial_asyncio'], 'python3-pymodbus');
const socat = peer('socat');

const device = (unit: number): ModbusDeviceOptions => ({
  asset: `unit-${unit}`,
  unit,
  order: 'ABCD',
  addressing: 'pdu0',
  groups: [
    {
      everyMs: 50,
      tags: [
        { name: 'first', at: 'hr:7', type: 'u16', write: {} },
        { name: 'pair', at: 'hr:100', type: 'u32', order: 'CDAB', write: {} },
        { name: 'far', at: 'hr:900', type: 'i16' },
        { name: 'before', at: 'ir:49', type: 'u16' },
        { name: 'hole', at: 'ir:55', type: 'u16' },
        { name: 'behind', at: 'ir:60', type: 'u16' },
        { name: 'coil', at: 'co:9', type: 'bool', write: {} },
        { name: 'input', at: 'di:4', type: 'bool' },
        { name: 'bit', at: 'hr:3.1', type: 'bool', write: {} },
      ],
    },
  ],
});

const WAYS: Record<string, { skip: false | string; start(t: TestContext): Promise<Endpoint> }> = {
  'Modbus TCP': {
    skip: python.skip,
    start: async (t) => tcp(await firstLineOf(t, python.path, [SERVER, 'tcp']), 'mbap'),
  },
  'RTU over TCP': {
    skip: python.skip,
    start: async (t) => tcp(await firstLineOf(t, python.path, [SERVER, 'rtutcp']), 'rtu'),
  },
  'a serial line': {
    skip: python.skip || (socat ? false : 'socat is not installed'),
    start: async (t) => {
      const { ours, theirs } = await serialPair(t, socat as string);
      await firstLineOf(t, python.path, [SERVER, 'rtu', theirs]);
      return { kind: 'serial', framing: 'rtu', path: ours, ...SERIAL_DEFAULTS, parity: 'none' };
    },
  },
};

function tcp(port: string, framing: 'mbap' | 'rtu'): Endpoint {
  const address = { kind: 'tcp', host: '127.0.0.1', port: Number(port) } as const;
  return framing === 'mbap' ? { ...address, framing } : { ...address, framing, baudRate: null };
}

for (const [way, { skip, start }] of Object.entries(WAYS))
  test(`pymodbus over ${way}: right values around a hole, two units, writes that stay`, { skip }, async (t) => {
    const { driver, last } = drive(t, await start(t), [device(1), device(2)]);
    for (const unit of ['unit-1', 'unit-2']) {
      await until('every value', () => last(unit, 'bit') && last(unit, 'behind')?.quality === GOOD, 20_000);
      const values = ['first', 'pair', 'far', 'before', 'hole', 'behind', 'coil', 'input', 'bit'].map(
        (tag) => last(unit, tag)?.value,
      );
      assert.deepEqual(values, [7, 101 * 0x10000 + 100, 900, 49, null, 60, true, false, true]);
      assert.equal(last(unit, 'hole')?.quality, 4);
    }
    const writes: [string, unknown][] = [
      ['first', 4711],
      ['pair', 0xdeadbeef],
      ['coil', false],
      ['bit', false],
    ];
    for (const [tag, value] of writes) {
      const { outcome, readBack } = await driver.write({ device: 'unit-2', tag, value }, () => true);
      assert.deepEqual([outcome, readBack?.value], ['done', value], tag);
    }
    assert.equal(last('unit-1', 'first')?.value, 7, 'the other unit keeps its own');
    assert.equal(driver.status().link.connects, 1);
  });

test('a pymodbus unit that is not there is silent, and the others go on', { skip: python.skip }, async (t) => {
  const endpoint = await (WAYS['RTU over TCP'] as (typeof WAYS)[string]).start(t);
  const { driver, last } = drive(t, endpoint, [device(1), device(9)]);
  await until('offline', () => driver.status().devices[1]?.timeouts, 20_000);
  await until('the healthy one goes on', () => last('unit-1', 'first')?.quality === GOOD);
});

test('pymodbus says who it is', { skip: python.skip }, async (t) => {
  const endpoint = await (WAYS['RTU over TCP'] as (typeof WAYS)[string]).start(t);
  const client = await ModbusClient.connect(
    { endpoint, connectTimeoutMs: 5000, signal: new AbortController().signal },
    { onDown: () => {}, onLate: () => {} },
  );
  t.after(() => client.close());
  const answer = await client.identify(1, Uint8Array.of(43, 14, 1, 0), 5000);
  assert.match(answer.toString('latin1'), /Fixture/);
});
