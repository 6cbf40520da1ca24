import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HoldfastError } from '../../src/lib/errors.js';
import { byteTimeMsOf, frameGapMsOf, parseEndpoint, targetOf } from '../../src/readers/modbus/endpoint.js';

test('a URL says where a device is and how its frames look', () => {
  assert.deepEqual(parseEndpoint('tcp://plc'), { kind: 'tcp', framing: 'mbap', host: 'plc', port: 502 });
  assert.deepEqual(parseEndpoint('tcp://[fe80::1]:1502'), {
    kind: 'tcp',
    framing: 'mbap',
    host: 'fe80::1',
    port: 1502,
  });
  const converter = { kind: 'tcp', framing: 'rtu', host: '192.0.2.1', port: 4001 };
  assert.deepEqual(parseEndpoint('rtu+tcp://192.0.2.1:4001'), { ...converter, baudRate: null });
  assert.deepEqual(parseEndpoint('rtu+tcp://192.0.2.1:4001', { baudRate: 9600 }), { ...converter, baudRate: 9600 });
  const line = { kind: 'serial', framing: 'rtu', baudRate: 19200, parity: 'even', dataBits: 8, stopBits: 1 };
  assert.deepEqual(parseEndpoint('rtu:///dev/ttyUSB0'), { ...line, path: '/dev/ttyUSB0' });
  assert.deepEqual(parseEndpoint('rtu:///COM3', { parity: 'none', stopBits: 2 }), {
    ...line,
    path: 'COM3',
    parity: 'none',
    stopBits: 2,
  });
  assert.equal(targetOf(parseEndpoint('rtu:///dev/ttyUSB0')), '/dev/ttyUSB0');
  assert.equal(targetOf(parseEndpoint('tcp://plc')), 'plc:502');
  for (const url of ['plc', 'tcp://', 'udp://plc', 'rtu:///', 'rtu://host/dev/tty', ''])
    assert.throws(
      () => parseEndpoint(url),
      (error: HoldfastError) => error.code === 'config.invalid',
      url,
    );
});

test('a serial line has its speed, and its silence between two frames', () => {
  const slow = parseEndpoint('rtu:///dev/tty1', { baudRate: 9600 });
  assert.ok(Math.abs(byteTimeMsOf(slow) - 1.1458) < 0.001);
  assert.ok(Math.abs(frameGapMsOf(slow) - 4.0104) < 0.001);
  assert.equal(frameGapMsOf(parseEndpoint('rtu:///dev/tty1', { baudRate: 115_200 })), 1.75);
  assert.equal(byteTimeMsOf(parseEndpoint('tcp://plc')), 0);
  assert.equal(
    frameGapMsOf(parseEndpoint('rtu+tcp://plc', { baudRate: 9600 })),
    0,
    'that is the task of the converter',
  );
});
