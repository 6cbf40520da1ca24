import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { SimulatedPlc } from '../../src/sim/plc.js';
import { until } from '../helpers/wait.js';

/** A raw master: it sends what it is told and shows what came. */
async function master(t: TestContext, plc: SimulatedPlc) {
  const socket: Socket = connect(plc.port, '127.0.0.1');
  const state = { received: Buffer.alloc(0) as Buffer, error: '', closed: false };
  socket.on('data', (chunk) => {
    state.received = Buffer.concat([state.received, chunk]);
  });
  socket.on('error', (error: NodeJS.ErrnoException) => {
    state.error = error.code ?? '';
  });
  socket.on('close', () => {
    state.closed = true;
  });
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  return Object.assign(state, { socket, send: (...bytes: Buffer[]) => socket.write(Buffer.concat(bytes)) });
}

function request(transaction: number, unit: number, ...pdu: number[]): Buffer {
  return Buffer.from([transaction >> 8, transaction & 255, 0, 0, 0, pdu.length + 1, unit, ...pdu]);
}

const exception = (transaction: number, unit: number, fc: number, code: number) =>
  request(transaction, unit, fc | 0x80, code);

async function open(t: TestContext): Promise<SimulatedPlc> {
  const plc = await SimulatedPlc.open({ port: 0 });
  t.after(() => plc.close());
  return plc;
}

test('wrong requests get the exception the standard names', async (t) => {
  const plc = await open(t);
  const client = await master(t, plc);
  const requests: [Buffer, Buffer][] = [
    [request(1, 1, 6, 0, 0, 0, 1), exception(1, 1, 6, 1)],
    [request(2, 1, 3, 0, 0, 0, 0), exception(2, 1, 3, 3)],
    [request(3, 1, 3, 0, 0, 0, 126), exception(3, 1, 3, 3)],
    [request(4, 1, 1, 0, 0, 0x07, 0xd1), exception(4, 1, 1, 3)],
    [request(5, 1, 3, 0, 19, 0, 2), exception(5, 1, 3, 2)],
    [request(6, 1, 2, 0xff, 0xff, 0, 1), exception(6, 1, 2, 2)],
    [request(7, 1, 4, 0), exception(7, 1, 4, 3)],
    [request(8, 9, 3, 0, 0, 0, 1), exception(8, 9, 3, 11)],
  ];
  client.send(...requests.map(([sent]) => sent));
  const expected = Buffer.concat(requests.map(([, answer]) => answer));
  await until('all exceptions', () => client.received.length >= expected.length);
  assert.deepEqual(client.received, expected);
  assert.equal(plc.served().exceptions, requests.length);
  assert.equal(plc.served().readings, 0);
});

test('two hundred pipelined requests, byte by byte at first, are answered in order', async (t) => {
  const plc = await open(t);
  await plc.set({ delayMs: 5 });
  const client = await master(t, plc);
  const all = Buffer.concat(Array.from({ length: 200 }, (_, n) => request(n, 1, 3, 0, 0, 0, 1)));
  for (const byte of all.subarray(0, 40)) client.send(Buffer.from([byte]));
  client.send(all.subarray(40));
  await until('the first answer', () => client.received.length > 0);
  await plc.set({ delayMs: 0 });
  await until('200 answers', () => client.received.length === 200 * 11);
  for (let n = 0; n < 200; n++) assert.equal(client.received.readUInt16BE(n * 11), n);
  assert.equal(plc.served().readings, 200);
});

test('garbage ends the connection, not the server', async (t) => {
  const plc = await open(t);
  const client = await master(t, plc);
  client.send(Buffer.from('GET / HTTP/1.1\r\n\r\n'));
  await until('closed', () => client.closed);
  const next = await master(t, plc);
  next.send(request(1, 2, 1, 0, 0, 0, 1));
  await until('an answer', () => next.received.length === 10);
  assert.equal(plc.served().garbage, 1);
});

test('a silent unit is silent alone, an excepted one answers its exception, and neither is in the truth', async (t) => {
  const plc = await open(t);
  const client = await master(t, plc);
  await plc.set({ silent: [1], exceptions: { 2: 6 } });
  client.send(request(1, 1, 3, 0, 0, 0, 1), request(2, 2, 3, 0, 0, 0, 1), request(3, 3, 3, 0, 0, 0, 1));
  await until('two answers', () => client.received.length >= 9 + 11);
  assert.deepEqual(client.received.subarray(0, 9), exception(2, 2, 3, 6));
  assert.equal(client.received.readUInt16BE(9), 3);
  assert.deepEqual(plc.served().perAsset, { filler: 0, capper: 0, labeler: 1, palletizer: 0 });
  await plc.set({ silent: true, exceptions: {} });
  client.send(request(4, 3, 3, 0, 0, 0, 1));
  await until('the request arrived', () => plc.served().requests === 4);
  await plc.set({ silent: false });
  client.send(request(5, 3, 3, 0, 0, 0, 1));
  await until('an answer again', () => client.received.length >= 31);
  assert.equal(client.received.readUInt16BE(20), 5);
});

test('a refused port refuses, open connections go on, a reset is one, and the port comes back', async (t) => {
  const plc = await open(t);
  const client = await master(t, plc);
  await plc.set({ refuse: true });
  await assert.rejects(master(t, plc), { code: 'ECONNREFUSED' });
  client.send(request(1, 1, 3, 0, 0, 0, 1));
  await until('an answer', () => client.received.length === 11);
  plc.reset();
  await until('reset', () => client.closed);
  assert.equal(client.error, 'ECONNRESET');
  await plc.set({ refuse: false });
  const next = await master(t, plc);
  next.send(request(1, 1, 3, 0, 0, 0, 1));
  await until('an answer', () => next.received.length === 11);
});

test('a wrong switch is refused and changes nothing', async (t) => {
  const plc = await open(t);
  await assert.rejects(plc.set({ delayMs: -1 }), { code: 'usage.invalid' });
  await assert.rejects(plc.set({ nonsense: true } as never), { code: 'usage.invalid' });
  assert.deepEqual(await plc.set({}), { refuse: false, silent: false, delayMs: 0, exceptions: {} });
});
