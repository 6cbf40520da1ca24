import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HoldfastError } from '../../src/lib/errors.js';
import { parseAddress } from '../../src/readers/modbus/address.js';
import type { ModbusTagOptions } from '../../src/readers/modbus/options.js';
import { compileTags } from '../../src/readers/modbus/tag.js';

const refused = (pattern: RegExp) => (error: HoldfastError) =>
  error.code === 'config.invalid' && pattern.test(error.message);

test('a prefixed address is the number in the PDU, whatever the addressing', () => {
  for (const addressing of ['pdu0', 'plc1'] as const) {
    assert.deepEqual(parseAddress('hr:107', addressing), { table: 'hr', address: 107, bits: null });
    assert.deepEqual(parseAddress('ir:12', addressing), { table: 'ir', address: 12, bits: null });
    assert.deepEqual(parseAddress('co:3', addressing), { table: 'co', address: 3, bits: null });
    assert.deepEqual(parseAddress('di:4', addressing), { table: 'di', address: 4, bits: null });
    assert.deepEqual(parseAddress('hr:300.15', addressing), { table: 'hr', address: 300, bits: { low: 15, high: 15 } });
    assert.deepEqual(parseAddress('hr:65535', addressing), { table: 'hr', address: 65535, bits: null });
    assert.deepEqual(parseAddress('hr:0x6B', addressing), { table: 'hr', address: 107, bits: null });
    assert.deepEqual(parseAddress('%MW107', addressing), { table: 'hr', address: 107, bits: null });
    assert.deepEqual(parseAddress('co:0xffff', addressing), { table: 'co', address: 65535, bits: null });
  }
});

test('the notation of PLC manuals counts from 1, and only where that was said', () => {
  const plc = (at: string) => parseAddress(at, 'plc1');
  assert.deepEqual(plc('40108'), { table: 'hr', address: 107, bits: null });
  assert.deepEqual(plc('400108'), { table: 'hr', address: 107, bits: null });
  assert.deepEqual(plc('465536'), { table: 'hr', address: 65535, bits: null });
  assert.deepEqual(plc('30001'), { table: 'ir', address: 0, bits: null });
  assert.deepEqual(plc('10005'), { table: 'di', address: 4, bits: null });
  assert.deepEqual(plc('00004'), { table: 'co', address: 3, bits: null });
  assert.deepEqual(plc('40301.3'), { table: 'hr', address: 300, bits: { low: 3, high: 3 } });
  assert.throws(() => parseAddress('40108', 'pdu0'), refused(/counts from/));
  assert.throws(() => plc('40000'), refused(/counts from 1/));
  assert.throws(() => plc('465537'), refused(/no such address/));
});

test('everything else is refused, never guessed', () => {
  for (const at of [
    '',
    '107',
    'hr107',
    'hr:-1',
    'hr:1.5.2',
    'xx:1',
    'hr: 1',
    'HR:1',
    '20001',
    '4001',
    'hr:0x',
    'hr:0x1FFFF',
    'hr:1F',
    '0x10',
    'hr:1e3',
  ])
    assert.throws(() => parseAddress(at, 'plc1'), refused(/expected co:, di:, hr: or ir:/), at);
  assert.throws(() => parseAddress('hr:65536', 'pdu0'), refused(/no such address/));
  assert.throws(() => parseAddress('hr:1.7-4', 'pdu0'), refused(/lower bit comes first/));
  assert.throws(() => parseAddress('co:1.0', 'pdu0'), refused(/only a register has bits/));
});

const compile = (...tags: ModbusTagOptions[]) =>
  compileTags({
    devices: [{ asset: 'press', unit: 1, order: 'ABCD', addressing: 'pdu0', groups: [{ everyMs: 1000, tags }] }],
  });

test('a tag that cannot be is refused with its place and the reason', () => {
  const cases: readonly (readonly [Partial<ModbusTagOptions>, RegExp])[] = [
    [{ at: 'co:1', type: 'u16' }, /one bit/],
    [{ at: 'hr:1', type: 'bool' }, /needs its bit/],
    [{ at: 'hr:1.16', type: 'bool' }, /bits 0 to 15/],
    [{ at: 'hr:1.4-5', type: 'bool' }, /is one bit/],
    [{ at: 'hr:1.2', type: 'f32' }, /whole value/],
    [{ at: 'hr:1.4-16', type: 'u16' }, /bits 0 to 15/],
    [{ type: 'i8' }, /needs its byte/],
    [{ at: 'hr:1.2-9', type: 'u8' }, /needs its byte/],
    [{ type: 'u32', order: 'GHEFCDAB' }, /for 64-bit values/],
    [{ range: { raw: [0, 100], eng: [0, 1], clamp: false }, scale: 2 }, /takes the place/],
    [{ range: { raw: [5, 5], eng: [0, 1], clamp: false } }, /ends of a range differ/],
    [{ type: 'f32', names: { 0: 'off' } }, /cannot have names/],
    [{ names: { x: 'off' } }, /no whole number/],
    [{ type: 'bool', at: 'co:1', invalid: [1] }, /no invalid values/],
    [{ type: 'string' }, /a string needs it/],
    [{ type: 'string', length: 1.5 }, /a string needs it/],
    [{ type: 'string', length: 251 }, /at most 250 bytes/],
    [{ type: 'u16', length: 2 }, /nothing else has it/],
    [{ at: 'hr:65535', type: 'u32' }, /beyond address 65535/],
    [{ scale: 0 }, /scale not 0/],
    [{ scale: Number.NaN }, /scale not 0/],
    [{ at: 'hr:1.2', type: 'bool', scale: 2 }, /only numbers/],
    [{ name: 'gap' }, /cannot be the name/],
    [{ name: '' }, /cannot be the name/],
    [{ type: 'u24' as 'u16' }, /no type/],
    [{ order: 'ACBD' as 'ABCD' }, /no byte order/],
  ];
  for (const [part, reason] of cases) {
    const tag = { name: 'level', at: 'hr:1', type: 'u16', ...part } as const;
    assert.throws(() => compile(tag), refused(/devices\[0\]\.groups\[0\]\.tags\[0\]/), JSON.stringify(part));
    assert.throws(() => compile(tag), refused(reason), JSON.stringify(part));
  }
});

test('all problems come at once, two tags of one name among them', () => {
  const tag = { name: 'level', at: 'hr:1', type: 'u16' } as const;
  assert.throws(
    () => compile(tag, tag, { ...tag, name: 'x', at: 'oops' }),
    (error: HoldfastError) => {
      assert.equal((error.values.problems as string[]).length, 2);
      return /twice/.test(error.message) && /oops/.test(error.message);
    },
  );
});
