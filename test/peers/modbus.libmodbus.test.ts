import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import type { HoldfastError } from '../../src/lib/errors.js';
import { ModbusClient } from '../../src/readers/modbus/client.js';
import { type Endpoint, SERIAL_DEFAULTS } from '../../src/readers/modbus/endpoint.js';
import { freePort } from '../../src/sim/free-port.js';
import { peer, peerWith } from '../helpers/peers.js';
import { buildLibmodbusServer, serialPair } from './modbus-peers.js';

const gcc = peerWith('/usr/bin/pkg-config', ['--exists', 'libmodbus'], 'libmodbus-dev');
const socat = peer('socat');
/** The server's id, and the addresses at which it misbehaves, as its source has them. */
const UNIT = 17;
const BUSY = 0x170;
const WRONG_TID = 0x171;
const SLEEPS_500_MS = 0x172;
const REGISTERS = 0x160;

async function connected(t: TestContext, way: 'tcp' | 'rtu') {
  const port = await freePort();
  const pair = way === 'rtu' ? await serialPair(t, socat as string) : undefined;
  const program = buildLibmodbusServer(t, 'unit-test-server', port, pair?.theirs);
  const child = spawn(program, [way], { stdio: 'ignore' });
  t.after(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  });
  const endpoint: Endpoint = pair
    ? { kind: 'serial', framing: 'rtu', path: pair.ours, ...SERIAL_DEFAULTS, baudRate: 115_200, parity: 'none' }
    : { kind: 'tcp', framing: 'mbap', host: '127.0.0.1', port };
  let client: ModbusClient | undefined;
  for (let tries = 0; !client; tries++) {
    client = await ModbusClient.connect(
      { endpoint, connectTimeoutMs: 5000, signal: new AbortController().signal },
      { onDown: () => {}, onLate: () => {} },
    ).catch(async (error) => {
      if (tries > 200) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
      return undefined;
    });
  }
  const open = client;
  t.after(() => open.close());
  // On the serial line nothing tells when the server has opened its end.
  for (let tries = 0; ; tries++)
    try {
      await open.read({ fc: 4, unit: UNIT, address: 0x108, quantity: 1 }, 300);
      return open;
    } catch (error) {
      if (tries > 20) throw error;
    }
}

const failsWith = (code: string, exception?: number) => (error: HoldfastError) => {
  assert.equal(error.code, code, error.message);
  if (exception !== undefined) assert.equal(error.values.code, exception);
  return true;
};

for (const way of ['tcp', 'rtu'] as const) {
  const skip = gcc.skip || (way === 'rtu' && !socat ? 'socat is not installed' : false);
  test(`libmodbus' own test server over ${way}: values, writes, and each of its misdeeds`, { skip }, async (t) => {
    const client = await connected(t, way);
    const read = (address: number, quantity = 1, timeoutMs = 5000) =>
      client.read({ fc: 3, unit: UNIT, address, quantity }, timeoutMs);
    const input = await client.read({ fc: 4, unit: UNIT, address: 0x108, quantity: 1 }, 5000);
    assert.equal(input.readUInt16BE(0), 10);
    const inputs = await client.read({ fc: 2, unit: UNIT, address: 0x1c4, quantity: 22 }, 5000);
    assert.equal(inputs.toString('hex'), 'acdb35');

    await client.write({ fc: 16, unit: UNIT, address: REGISTERS, registers: Buffer.from('022b00010064', 'hex') }, 5000);
    assert.equal((await read(REGISTERS, 3)).toString('hex'), '022b00010064');
    await client.write({ fc: 6, unit: UNIT, address: REGISTERS, value: 0x1234 }, 5000);
    await client.write({ fc: 22, unit: UNIT, address: REGISTERS, and: 0x00ff, or: 0xab00 }, 5000);
    assert.equal((await read(REGISTERS)).readUInt16BE(0), 0xab34);
    const back = await client.write(
      { fc: 23, unit: UNIT, address: REGISTERS, registers: Buffer.from('000500060007', 'hex') },
      5000,
    );
    assert.equal(back.toString('hex'), '000500060007');
    await client.write({ fc: 5, unit: UNIT, address: 0x130, on: true }, 5000);
    await client.write({ fc: 15, unit: UNIT, address: 0x131, bits: [true, false, true] }, 5000);
    assert.equal((await client.read({ fc: 1, unit: UNIT, address: 0x130, quantity: 4 }, 5000))[0], 0b1011);

    await assert.rejects(read(BUSY), failsWith('device.exception', 6));
    await assert.rejects(read(0x300), failsWith('device.exception', 2));
    // One register too few: on TCP it is an answer that does not fit, on RTU it is no answer.
    await assert.rejects(read(REGISTERS, 2, 300), failsWith(way === 'tcp' ? 'device.protocol' : 'device.timeout'));
    await assert.rejects(read(WRONG_TID, 1, 300), failsWith('device.timeout'));
    if (way === 'tcp') {
      await assert.rejects(read(SLEEPS_500_MS, 1, 100), failsWith('device.timeout'));
      assert.equal((await read(REGISTERS, 3)).toString('hex'), '000500060007', 'the late answer is not this one');
    }
  });
}
