import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { AnswerGuard } from '../../src/bridge/answer-guard.js';
import { until } from '../helpers/wait.js';

function guarded(t: TestContext) {
  const socket = new PassThrough();
  const guard = new AnswerGuard(socket);
  const seen: Buffer[] = [];
  let error: Error | undefined;
  guard.on('data', (chunk: Buffer) => seen.push(chunk));
  guard.on('error', (cause) => {
    error = cause;
  });
  t.after(() => guard.destroy());
  return { socket, guard, bytes: () => Buffer.concat(seen), error: () => error };
}

const LEGAL = {
  connack: [0x20, 0x02, 0x00, 0x00],
  puback: [0x40, 0x02, 0x00, 0x01],
  'puback with a reason': [0x40, 0x04, 0x00, 0x01, 0x10, 0x00],
  pingresp: [0xd0, 0x00],
  disconnect: [0xe0, 0x02, 0x8e, 0x00],
};

test('what a broker may send passes unchanged, byte by byte too', async (t) => {
  const { socket, bytes } = guarded(t);
  const all = Buffer.from(Object.values(LEGAL).flat());
  for (const byte of all) socket.write(Buffer.from([byte]));
  await until('all bytes', () => bytes().length === all.length);
  assert.deepEqual(bytes(), all);
});

const ILLEGAL = {
  'an empty CONNACK': [0x20, 0x00],
  'a PUBLISH without a packet id': [0x32, 0x05, 0x00, 0x03, 0x61, 0x62, 0x63],
  'a SUBACK nobody asked for': [0x90, 0x03, 0x00, 0x01, 0x00],
  'a PUBACK with flags': [0x42, 0x02, 0x00, 0x01],
  'a length of five bytes': [0x40, 0xff, 0xff, 0xff, 0xff, 0x01],
  'a packet larger than any answer': [0x40, 0xff, 0xff, 0x7f],
  'an HTTP answer': [...Buffer.from('HTTP/1.1 400 Bad Request')],
};

for (const [name, bytes] of Object.entries(ILLEGAL)) {
  test(`${name} ends the link and does not reach the client library`, async (t) => {
    const { socket, error, bytes: seen } = guarded(t);
    socket.write(Buffer.from(bytes));
    const cause = await until('an error', error);
    assert.match(cause.message, /broke the protocol/);
    assert.equal(seen().length, 0);
  });
}
