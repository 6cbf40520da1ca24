import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DataValue, StatusCode } from 'node-opcua-client';
import type { Millis } from '../../src/model/ids.js';
import { BAD, GOOD, UNCERTAIN } from '../../src/model/reading.js';
import { encode } from '../../src/readers/opcua/encode.js';
import { resolveNode } from '../../src/readers/opcua/node-ids.js';
import { stampOf } from '../../src/readers/opcua/stamps.js';
import { qualityOf } from '../../src/readers/opcua/status.js';
import { convert, TYPE } from '../../src/readers/opcua/values.js';

const code = (name: string, value: number) => ({ name, value, hasOverflowBit: false }) as unknown as StatusCode;
const GOOD_CODE = code('Good', 0);
const dataValue = (dataType: number, value: unknown, statusCode = GOOD_CODE, arrayType = 0) =>
  ({ statusCode, value: { dataType, arrayType, value } }) as unknown as DataValue;

test('the status of a value becomes its quality, with the sub-status where there is one', () => {
  assert.equal(qualityOf(GOOD_CODE), GOOD);
  assert.equal(qualityOf(code('UncertainSubNormal', 0x40950000)), 88);
  assert.equal(qualityOf(code('UncertainOfSomeKind', 0x40ff0000)), UNCERTAIN);
  assert.equal(qualityOf(code('BadOfSomeKind', 0x80ff0000)), BAD);
  assert.equal(qualityOf(code('BadOutOfService', 0x808d0000)), 28);
  assert.equal(qualityOf(code('Good#Overflow|0x480', 0x480)), GOOD);
});

test('a value keeps its type to the last bit, and what is none is bad', () => {
  assert.deepEqual(convert(dataValue(TYPE.int64, [0x80000000, 0])), { type: 'i', value: -(2n ** 63n), quality: GOOD });
  assert.deepEqual(convert(dataValue(TYPE.uint64, [0xffffffff, 0xffffffff])).value, 2n ** 64n - 1n);
  assert.deepEqual(convert(dataValue(TYPE.float, Number.NaN)).value, null);
  assert.equal(convert(dataValue(TYPE.float, Number.NaN)).cause, 'not-a-number');
  assert.equal(convert(dataValue(TYPE.double, [1, 2], GOOD_CODE, 1)).cause, 'unsupported-type');
  assert.equal(convert(dataValue(22, {})).cause, 'unsupported-type');
  assert.equal(convert(dataValue(TYPE.byteString, Buffer.from([1, 2]))).value, 'AQI=');
  assert.equal(convert(dataValue(TYPE.localizedText, { text: 'Presse', locale: 'de' })).value, 'Presse');
  const uncertain = convert(dataValue(TYPE.double, 3, code('UncertainLastUsableValue', 0x40900000)));
  assert.deepEqual(uncertain, { type: 'f', value: 3, quality: 68 });
  assert.deepEqual(convert({ statusCode: code('BadNoData', 0x809b0000) } as DataValue).cause, 'BadNoData');
});

test('what is written is what the type can hold', () => {
  assert.deepEqual(encode(TYPE.int64, -1n), { value: [0xffffffff, 0xffffffff] });
  assert.deepEqual(encode(TYPE.uint64, 2 ** 40), { value: [256, 0] });
  for (const [type, value] of [
    [TYPE.byte, 256],
    [TYPE.sbyte, -129],
    [TYPE.int64, 2n ** 63n],
    [TYPE.uint64, -1],
    [TYPE.float, 1e39],
    [TYPE.boolean, 1],
    [TYPE.string, 1],
    [TYPE.dateTime, 'soon'],
    [TYPE.guid, 'x'],
  ] as const)
    assert.ok('fault' in encode(type, value), `${type} ${value}`);
});

test('a namespace is found by its URI, whatever its index is today', () => {
  assert.equal(resolveNode('nsu=urn:press;s=A;B', ['', 'urn:x', 'urn:press']), 'ns=2;s=A;B');
  assert.equal(resolveNode('nsu=urn:a%3Bb;i=1', ['', 'urn:a;b']), 'ns=1;i=1');
  assert.equal(resolveNode('i=85', []), 'i=85');
  assert.throws(() => resolveNode('nsu=urn:gone;i=1', ['']), /has no namespace urn:gone/);
  assert.throws(() => resolveNode('Speed', []), /is no node id/);
});

test('the time is the source’s, then the server’s, then that of the arrival, and always after the last one', () => {
  const now = Date.UTC(2026, 0, 31) as Millis;
  const at = (source?: number, server?: number) =>
    ({
      sourceTimestamp: source === undefined ? null : new Date(source),
      serverTimestamp: server === undefined ? null : new Date(server),
    }) as unknown as DataValue;
  assert.equal(stampOf(at(now - 500, now - 100), now, undefined), now - 500);
  assert.equal(stampOf(at(undefined, now - 100), now, undefined), now - 100);
  assert.equal(stampOf(at(), now, undefined), now);
  assert.equal(stampOf(at(now - 500, now - 100), now, (now - 500) as Millis), now - 100);
  assert.equal(stampOf(at(now - 500), now, now), now + 1);
  assert.equal(stampOf(at(Date.UTC(1601, 0, 1), now - 100), now, undefined), now - 100);
  assert.equal(stampOf(at(Date.UTC(2099, 0, 1), now - 100), now, undefined), now - 100);
});
