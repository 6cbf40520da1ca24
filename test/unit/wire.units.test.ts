import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Batcher } from '../../src/bridge/batcher.js';
import { gatewaySchema } from '../../src/config/gateway-schema.js';
import { importTags } from '../../src/config/tag-import.js';
import { unitsOf } from '../../src/gateway/open-replayer.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { pack, unpack } from '../../src/wire/msgpack.js';
import { gapRow, opaqueRow, reading, readingRow, source, T0 } from '../helpers/rows.js';

const rows = [
  opaqueRow(1, Buffer.from('raw')),
  gapRow(2, 'press01', 'temperature', { from: T0 as never, to: (T0 + 5) as never, reason: 'device-unreachable' }),
  readingRow(3, reading('f', 20.5)),
  readingRow(4, reading('s', 'x')),
];
const units = new Map([
  ['press01', new Map([['temperature', '°C']])],
  ['press02', new Map([['pressure', 'bar']])],
]);
const others = new Map([['press02', new Map([['pressure', 'bar']])]]);
const UNIT = { asset: 'press01', metric: 'temperature', unit: '°C' };

test('the units of the series in a batch survive, once per series of readings', () => {
  const batch = decodeBatch(encodeColumns(source(), rows, { units }));
  assert.deepEqual(batch.units, [UNIT, UNIT]);
  assert.deepEqual(batch.rows, decodeBatch(encodeColumns(source(), rows)).rows);
});

test('a batch whose series have no units is the same to the byte as before there were any', () => {
  const plain = encodeColumns(source(), rows);
  assert.deepEqual(encodeColumns(source(), rows, { units: others }), plain);
  assert.deepEqual(encodeColumns(source(), rows, { units: new Map() }), plain);
  assert.equal('u' in (unpack(plain) as object), false);
  assert.equal('units' in decodeBatch(plain), false);
});

test('units that are no units, or of no series of readings, make a batch malformed', () => {
  const whole = unpack(encodeColumns(source(), rows, { units })) as Record<string, unknown>;
  assert.deepEqual(whole.u, [2, '°C', 3, '°C']);
  for (const u of [
    '°C',
    [2],
    [2, ''],
    [2, ' C'],
    [2, 'a\0b'],
    [2, 'x'.repeat(65)],
    [2, 7],
    [0, 'C'],
    [1, 'C'],
    [4, 'C'],
    [-1, 'C'],
    [2.5, 'C'],
    [3, 'C', 2, 'C'],
    [2, 'C', 2, 'C'],
  ])
    assert.throws(() => decodeBatch(pack({ ...whole, u })), { code: 'wire.malformed' }, JSON.stringify(u));
  assert.equal(decodeBatch(pack({ ...whole, u: [2, '𝜇'.repeat(64)] })).units?.[0]?.unit.length, 128);
});

test('the batcher sends the units of the tags that the config gives', async () => {
  const group = (tag: object) => [{ every: '1s', tags: [{ name: 'temperature', unit: '°C', ...tag }] }];
  const config = gatewaySchema.parse({
    gateway: { id: 'g' },
    upstream: { url: 'mqtt://h' },
    readers: [
      {
        type: 'modbus',
        url: 'tcp://plc',
        devices: [{ asset: 'press01', groups: group({ at: 'hr:1', type: 'f32' }) }],
      },
      {
        type: 'opcua',
        url: 'opc.tcp://plc:4840',
        devices: [{ asset: 'oven', groups: group({ node: 'i=1', unit: 'K' }) }],
      },
    ],
  });
  assert.deepEqual(
    [...unitsOf(config)].map(([asset, of]) => [asset, ...of]),
    [
      ['press01', ['temperature', '°C']],
      ['oven', ['temperature', 'K']],
    ],
  );
  const batcher = new Batcher({ source: source(), format: 'columns', compression: 'none', units: unitsOf(config) });
  const [batch] = await batcher.encode(rows, { bytesMax: 65_536, rowBytesMax: 65_536 });
  assert.deepEqual(decodeBatch(batch!.payload!).units, [UNIT, UNIT]);
});

test('a list of tags may have the unit of measure beside the unit id', () => {
  const text = 'device,unit,tag,address,type,unit_text\npress,3,temperature,hr:1,u16,°C\npress,3,count,hr:2,u16,\n';
  const { reader } = importTags(text, { asset: 'a', unit: 1, base: 0, url: 'tcp://plc' });
  assert.equal(reader.devices[0]?.unit, 3);
  assert.deepEqual(
    reader.devices[0]?.groups[0]?.tags.map(({ unit }) => unit),
    ['°C', undefined],
  );
});
