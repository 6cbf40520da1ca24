import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { HoldfastError } from '../../src/lib/errors.js';
import { ModbusClient } from '../../src/readers/modbus/client.js';
import type { ReadRequest, WriteRequest } from '../../src/readers/modbus/requests.js';
import { FakeRtu, type RtuBehaviour, rtu } from './readers.fake-rtu.js';

const PATIENT_MS = 10_000;
const SHORT_MS = 50;
const request: ReadRequest = { fc: 3, unit: 1, address: 100, quantity: 2 };
const failsWith =
  (code: string, values: object = {}) =>
  (error: HoldfastError) => {
    assert.equal(error.code, code, error.message);
    for (const [key, value] of Object.entries(values)) assert.equal(error.values[key], value);
    return true;
  };

async function connected(t: TestContext, behave?: RtuBehaviour, localEcho = false) {
  const device = await FakeRtu.listen(t, behave);
  const late: number[] = [];
  const client = await ModbusClient.connect(
    { endpoint: device.endpoint, connectTimeoutMs: PATIENT_MS, signal: new AbortController().signal, localEcho },
    { onDown: () => {}, onLate: (unit) => late.push(unit) },
  );
  t.after(() => client.close());
  return { device, client, late };
}

test('the wire carries unit, PDU and CRC, and nothing else', async (t) => {
  const { device, client } = await connected(t);
  const data = await client.read({ fc: 3, unit: 1, address: 0, quantity: 1 }, PATIENT_MS);
  assert.equal(data.readUInt16BE(0), 0);
  assert.equal(device.requests[0]?.toString('hex'), '010300000001840a');
});

test('answers are found in pieces, behind noise, and behind an answer that does not fit', async (t) => {
  const ways: RtuBehaviour[] = [
    (asked) => [...device.answer(asked)].flatMap((byte) => [Buffer.from([byte]), 1]),
    (asked) => [Buffer.from([1, 3, 4, 9, 9, 9, 9, 0, 0, 0xff]), device.answer(asked)],
    // Another unit; another function; another length; a wrong CRC.
    (asked) => [rtu([2, 3, 4, 0, 1, 0, 2]), device.answer(asked)],
    (asked) => [rtu([1, 4, 4, 0, 1, 0, 2]), device.answer(asked)],
    (asked) => [rtu([1, 3, 2, 0, 1]), device.answer(asked)],
    (asked) => [Buffer.from([1, 3, 4, 0, 1, 0, 2, 0xde, 0xad]), device.answer(asked)],
  ];
  const { device, client } = await connected(t, (asked, n) => (ways[n - 1] as RtuBehaviour)(asked, n));
  for (const _ of ways) assert.deepEqual([...(await client.read(request, PATIENT_MS))], [0, 100, 0, 101]);
});

test('noise without end is no answer, and does not pile up', async (t) => {
  const { device, client } = await connected(t, (asked, n) =>
    n === 1 ? Array.from({ length: 100 }, () => Buffer.alloc(1000, 0x55)) : [device.answer(asked)],
  );
  await assert.rejects(client.read(request, SHORT_MS), failsWith('device.timeout'));
  const data = await client.read(request, PATIENT_MS);
  assert.equal(data.readUInt16BE(0), 100);
});

test('exceptions carry their code', async (t) => {
  const { client } = await connected(t, (asked) => [rtu([asked[0] as number, (asked[1] as number) | 0x80, 2])]);
  await assert.rejects(client.read(request, PATIENT_MS), failsWith('device.exception', { code: 2 }));
});

test('an adapter that hears itself is told so, and then an echoed write is no answer', async (t) => {
  const echo: RtuBehaviour = (asked) => [asked, device.answer(asked)];
  const { device, client } = await connected(t, echo, true);
  // The echo of this question would itself be a well-formed answer to it: three data bytes and a right CRC.
  const treacherous: ReadRequest = { fc: 1, unit: 1, address: 0x0300, quantity: 20 };
  const bits = await client.read(treacherous, PATIENT_MS);
  assert.deepEqual([...bits], [0xaa, 0xaa, 0x0a]);
  device.behave = (asked) => [asked];
  await assert.rejects(client.write({ fc: 6, unit: 1, address: 1, value: 7 }, SHORT_MS), failsWith('device.timeout'));
  assert.equal(device.registers.get(1), undefined);
});

test('every write function is confirmed, and the device has the values', async (t) => {
  const { device, client } = await connected(t);
  const unit = 1;
  const writes: WriteRequest[] = [
    { fc: 5, unit, address: 1, on: true },
    { fc: 6, unit, address: 2, value: 0xfff6 },
    { fc: 15, unit, address: 10, bits: [true, false, true, true, false, false, false, false, true] },
    { fc: 16, unit, address: 30, registers: Buffer.from('1234abcd', 'hex') },
    { fc: 22, unit, address: 0x1234, and: 0xfff0, or: 0x000a },
  ];
  for (const write of writes) await client.write(write, PATIENT_MS);
  const readBack = await client.write(
    { fc: 23, unit, address: 40, registers: Buffer.from('00070008', 'hex') },
    PATIENT_MS,
  );
  assert.equal(readBack.toString('hex'), '00070008');
  const held = [1, 2, 10, 11, 12, 18, 30, 31, 0x1234, 40, 41].map((address) => device.registers.get(address));
  assert.deepEqual(held, [1, 0xfff6, 1, 0, 1, 1, 0x1234, 0xabcd, 0x123a, 7, 8]);
});

test('a write that is confirmed with other values is not confirmed', async (t) => {
  const { client } = await connected(t, (asked) => [rtu([asked[0] as number, 6, 0, 1, 0, 99])]);
  await assert.rejects(client.write({ fc: 6, unit: 1, address: 1, value: 7 }, SHORT_MS), failsWith('device.timeout'));
});

test('who a device is, though it always promises more', async (t) => {
  const { client } = await connected(t, () => [rtu([1, 43, 14, 1, 1, 0xff, 0, 1, 0, 3, 0x41, 0x42, 0x43])]);
  const answer = await client.identify(1, Uint8Array.of(43, 14, 1, 0), PATIENT_MS);
  assert.equal(answer.toString('latin1', 8), 'ABC');
});

test('a late answer is dropped and counted', async (t) => {
  const { client, device, late } = await connected(t, (asked, n) => [
    ...(n === 1 ? [2 * SHORT_MS] : []),
    device.answer(asked),
  ]);
  await assert.rejects(client.read(request, SHORT_MS), failsWith('device.timeout'));
  await new Promise((resolve) => setTimeout(resolve, 3 * SHORT_MS));
  assert.deepEqual(late, [1]);
});
