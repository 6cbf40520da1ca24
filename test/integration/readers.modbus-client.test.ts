import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import type { HoldfastError } from '../../src/lib/errors.js';
import { ModbusClient } from '../../src/readers/modbus/client.js';
import type { Endpoint } from '../../src/readers/modbus/endpoint.js';
import type { ReadRequest } from '../../src/readers/modbus/requests.js';
import { until } from '../helpers/wait.js';
import { answerTo, type Behaviour, exceptionTo, FakeDevice, frame, honest } from './readers.fake-device.js';

/** Long enough never to be reached where an answer is expected. */
const PATIENT_MS = 10_000;
const SHORT_MS = 60;

const tcp = (port: number): Endpoint => ({ kind: 'tcp', framing: 'mbap', host: '127.0.0.1', port });
const request: ReadRequest = { fc: 3, unit: 1, address: 100, quantity: 2 };
const failsWith =
  (code: string, values: object = {}) =>
  (error: HoldfastError) => {
    assert.equal(error.code, code, error.message);
    for (const [key, value] of Object.entries(values)) assert.equal(error.values[key], value);
    return true;
  };

async function connected(t: TestContext, behave: Behaviour = honest, acceptAnyUnit = false) {
  const device = await FakeDevice.listen(behave);
  const late: number[] = [];
  const downs: HoldfastError[] = [];
  const client = await ModbusClient.connect(
    { endpoint: tcp(device.port), connectTimeoutMs: PATIENT_MS, signal: new AbortController().signal, acceptAnyUnit },
    { onDown: (reason) => downs.push(reason), onLate: (unit) => late.push(unit) },
  );
  t.after(() => {
    client.close();
    return device.close();
  });
  return { device, client, late, downs };
}

test('reads registers and bits of every table', async (t) => {
  const { client, device } = await connected(t);
  assert.equal((await client.read({ fc: 3, unit: 1, address: 107, quantity: 1 }, PATIENT_MS)).readUInt16BE(0), 107);
  assert.equal(
    (await client.read({ fc: 4, unit: 0, address: 0xffff, quantity: 1 }, PATIENT_MS)).readUInt16BE(0),
    0xffff,
  );
  assert.deepEqual([...(await client.read({ fc: 1, unit: 255, address: 3, quantity: 10 }, PATIENT_MS))], [0x55, 0x01]);
  assert.deepEqual([...(await client.read({ fc: 2, unit: 1, address: 0, quantity: 4 }, PATIENT_MS))], [0x0a]);
  assert.equal((await client.read({ fc: 3, unit: 1, address: 0, quantity: 125 }, PATIENT_MS)).length, 250);
  assert.deepEqual(
    device.questions.map(({ fc, unit }) => [fc, unit]),
    [
      [3, 1],
      [4, 0],
      [1, 255],
      [2, 1],
      [3, 1],
    ],
  );
});

test('many questions at once get each its own answer, whatever the order', async (t) => {
  const held: Buffer[] = [];
  const { client } = await connected(t, (question) => {
    held.unshift(answerTo(question));
    if (held.length === 30) question.socket.write(Buffer.concat(held));
  });
  const reads = Array.from({ length: 30 }, (_, address) => client.read({ ...request, address }, PATIENT_MS));
  assert.deepEqual(
    (await Promise.all(reads)).map((data) => data.readUInt16BE(0)),
    [...Array(30).keys()],
  );
});

test('an answer in single bytes is one answer', async (t) => {
  const { client } = await connected(t, (question) => {
    for (const byte of answerTo(question)) question.socket.write(Buffer.from([byte]));
  });
  assert.equal((await client.read(request, PATIENT_MS)).readUInt16BE(2), 101);
});

test('a silent device is a timeout, and the connection stays', async (t) => {
  const { client, downs } = await connected(t, (question, device) => {
    if (question.n > 1) honest(question, device);
  });
  await assert.rejects(client.read(request, SHORT_MS), failsWith('device.timeout', { timeoutMs: SHORT_MS, unit: 1 }));
  assert.equal((await client.read(request, PATIENT_MS)).readUInt16BE(0), 100);
  assert.deepEqual(downs, []);
});

test('a late answer is dropped and counted, and never taken for the next one', async (t) => {
  let owed: Buffer | undefined;
  const { client, late } = await connected(t, (question) => {
    if (!owed) owed = answerTo(question);
    else question.socket.write(Buffer.concat([owed, answerTo(question)]));
  });
  await assert.rejects(client.read({ ...request, address: 1, unit: 7 }, SHORT_MS), failsWith('device.timeout'));
  assert.equal((await client.read({ ...request, address: 2 }, PATIENT_MS)).readUInt16BE(0), 2);
  assert.deepEqual(late, [7]);
});

test('an answer to a transaction that nobody began is no answer', async (t) => {
  const { client, late } = await connected(t, (question) => {
    question.socket.write(answerTo({ ...question, tid: (question.tid + 1) & 0xffff, address: 666 }));
    question.socket.write(answerTo(question));
  });
  assert.equal((await client.read(request, PATIENT_MS)).readUInt16BE(0), 100);
  assert.deepEqual(late, [1]);
});

test('an answer that comes twice counts once', async (t) => {
  const { client, late } = await connected(t, (question) => {
    question.socket.write(Buffer.concat([answerTo(question), answerTo(question)]));
  });
  for (const address of [5, 6])
    assert.equal((await client.read({ ...request, address }, PATIENT_MS)).readUInt16BE(0), address);
  await until('both repeats', () => late.length === 2);
});

test('a device that always answers under unit 1 is read as any unit, where that was said', async (t) => {
  const asUnitOne: Behaviour = (question) => void question.socket.write(answerTo({ ...question, unit: 1 }));
  const strict = await connected(t, asUnitOne);
  await assert.rejects(strict.client.read({ ...request, unit: 255 }, PATIENT_MS), failsWith('device.protocol'));
  const lenient = await connected(t, asUnitOne, true);
  assert.equal((await lenient.client.read({ ...request, unit: 255 }, PATIENT_MS)).readUInt16BE(0), 100);
});

for (const how of ['rst', 'fin'] as const)
  test(`a connection that ends by ${how} rejects all that is pending, at once`, async (t) => {
    const { client, device, downs } = await connected(t, () => {});
    const reads = [1, 2, 3].map((address) => client.read({ ...request, address }, PATIENT_MS));
    const settled = Promise.allSettled(reads);
    await until('the questions', () => device.questions.length === 3);
    device.hangUp(how);
    for (const result of await settled) {
      assert.equal(result.status, 'rejected');
      failsWith('device.link')(result.reason);
    }
    assert.equal(downs.length, 1);
    await assert.rejects(client.read(request, PATIENT_MS), failsWith('device.link'));
  });

test('garbage instead of a header ends the connection', async (t) => {
  const { client, downs } = await connected(t, (question) => {
    question.socket.write(Buffer.concat([Buffer.from([1, 2, 3]), answerTo(question)]));
  });
  await assert.rejects(client.read(request, PATIENT_MS), failsWith('device.protocol'));
  assert.equal(downs[0]?.code, 'device.protocol');
});

for (const length of [0, 1, 255, 0xffff])
  test(`a header with the length ${length} ends the connection`, async (t) => {
    const { client } = await connected(t, ({ tid, socket }) => {
      const bytes = Buffer.alloc(6);
      bytes.writeUInt16BE(tid, 0);
      bytes.writeUInt16BE(length, 4);
      socket.write(bytes);
    });
    await assert.rejects(client.read(request, PATIENT_MS), failsWith('device.protocol', { length }));
  });

test('half an answer ends the connection at its timeout, so that nothing is read as its other half', async (t) => {
  const { client, downs } = await connected(
    t,
    (question) => void question.socket.write(answerTo(question).subarray(0, 9)),
  );
  await assert.rejects(client.read(request, SHORT_MS), failsWith('device.protocol'));
  assert.equal(downs.length, 1);
});

test('an answer that does not fit the question is refused, and the connection stays', async (t) => {
  const misfits: Behaviour[] = [
    // Fewer registers than asked, and the byte count says so.
    ({ tid, unit, socket }) => socket.write(frame(tid, unit, Buffer.from([3, 2, 0, 9]))),
    // The right number of bytes, and a byte count that claims fewer or more.
    ({ tid, unit, socket }) => socket.write(frame(tid, unit, Buffer.from([3, 2, 0, 9, 0, 9]))),
    ({ tid, unit, socket }) => socket.write(frame(tid, unit, Buffer.from([3, 250, 0, 9, 0, 9]))),
    // Another unit, another function, nothing but a function.
    (question) => question.socket.write(answerTo({ ...question, unit: 2 })),
    (question) => question.socket.write(answerTo({ ...question, fc: 4 })),
    ({ tid, unit, socket }) => socket.write(frame(tid, unit, Buffer.from([3]))),
  ];
  const { client, downs } = await connected(t, (question, device) =>
    (misfits[question.n - 1] ?? honest)(question, device),
  );
  for (const _ of misfits) await assert.rejects(client.read(request, PATIENT_MS), failsWith('device.protocol'));
  assert.equal((await client.read(request, PATIENT_MS)).readUInt16BE(0), 100);
  assert.deepEqual(downs, []);
});

test('an exception carries its code', async (t) => {
  const { client } = await connected(t, (question) => void question.socket.write(exceptionTo(question, 2)));
  await assert.rejects(client.read(request, PATIENT_MS), failsWith('device.exception', { code: 2, address: 100 }));
});

test('limits are kept before anything is sent', async (t) => {
  const { client, device } = await connected(t);
  const wrong: Partial<ReadRequest>[] = [
    { quantity: 0 },
    { quantity: 126 },
    { fc: 1, quantity: 2001 },
    { address: 0xffff },
  ];
  for (const part of wrong)
    assert.throws(() => client.read({ ...request, ...part }, PATIENT_MS), failsWith('internal.assertion'));
  assert.equal(device.questions.length, 0);
});

test('a device that refuses, and an attempt that is called off, are link errors without a socket left', async (t) => {
  const device = await FakeDevice.listen();
  t.after(() => device.close());
  const events = { onDown: () => {}, onLate: () => {} };
  const options = { endpoint: tcp(device.port), connectTimeoutMs: PATIENT_MS };
  await assert.rejects(
    ModbusClient.connect({ ...options, signal: AbortSignal.abort() }, events),
    failsWith('device.link'),
  );
  await device.powerOff();
  await assert.rejects(
    ModbusClient.connect({ ...options, signal: new AbortController().signal }, events),
    failsWith('device.link'),
  );
  assert.equal(device.sockets.size, 0);
});

test('a connection that is not made in time leaves no socket that connects later', async (t) => {
  // It blocks instead of accepting: after two connections the kernel lets further ones wait.
  const child = spawn(process.execPath, [
    '-e',
    `const server = require('node:net').createServer().listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => {
       require('node:fs').writeSync(1, String(server.address().port));
       require('node:fs').readSync(0, Buffer.alloc(1));
     });`,
  ]);
  const fillers: Socket[] = [];
  t.after(() => {
    for (const socket of fillers) socket.destroy();
    child.kill('SIGKILL');
  });
  const port = Number(String((await once(child.stdout, 'data'))[0]));
  for (let i = 0; i < 2; i++) {
    const socket = connect({ host: '127.0.0.1', port });
    fillers.push(socket);
    await once(socket, 'connect');
  }
  const connecting = () => process.getActiveResourcesInfo().some((name) => name.endsWith('ConnectWrap'));
  const attempt = ModbusClient.connect(
    { endpoint: tcp(port), connectTimeoutMs: 500, signal: new AbortController().signal },
    { onDown: () => {}, onLate: () => {} },
  );
  const refused = assert.rejects(attempt, failsWith('device.link'));
  await until('the attempt', connecting);
  await refused;
  await until('no socket that still connects', () => !connecting());
});

test('answers to 70 000 questions stay right while the transaction ids wrap', async (t) => {
  const { client } = await connected(t);
  for (let round = 0; round < 70_000 / 28; round++) {
    const reads = Array.from({ length: 28 }, (_, i) =>
      client.read({ ...request, address: round * 16 + i, quantity: 1 }, PATIENT_MS),
    );
    const values = (await Promise.all(reads)).map((data) => data.readUInt16BE(0));
    assert.deepEqual(
      values,
      Array.from({ length: 28 }, (_, i) => round * 16 + i),
    );
  }
});

test('a blocked event loop is not blamed on the device', async (t) => {
  const shared = new SharedArrayBuffer(4);
  const worker = new Worker(new URL('./readers.device-worker.js', import.meta.url), { workerData: shared });
  t.after(() => worker.terminate());
  const [port] = (await once(worker, 'message')) as [number];
  const client = await ModbusClient.connect(
    { endpoint: tcp(port), connectTimeoutMs: PATIENT_MS, signal: new AbortController().signal },
    { onDown: () => {}, onLate: () => {} },
  );
  t.after(() => client.close());
  for (let i = 0; i < 5; i++) {
    const answered = new Int32Array(shared);
    Atomics.store(answered, 0, 0);
    const blockedUntil = performance.now() + SHORT_MS * 2;
    const reading = client.read(request, SHORT_MS);
    Atomics.wait(answered, 0, 0);
    while (performance.now() < blockedUntil) Atomics.wait(answered, 0, 1, 5);
    assert.equal((await reading).readUInt16BE(0), 100);
  }
});
