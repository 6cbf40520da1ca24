import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import modbusSerial from 'modbus-serial';
import { LINE_ASSETS, LINE_TAGS, type LineTag } from '../../src/sim/line-tags.js';
import { SimulatedPlc } from '../../src/sim/plc.js';
import type { TruthRecord } from '../../src/sim/truth-log.js';
import { tempDir } from '../helpers/tmp.js';

const ModbusRTU = modbusSerial.default ?? modbusSerial;

/** Decodes by hand, so that the truth is checked by other code than that which wrote it. */
function decode(tag: LineTag, bytes: Buffer): TruthRecord['value'] {
  const at = tag.order === 'CDAB' ? Buffer.concat([bytes.subarray(2), bytes.subarray(0, 2)]) : bytes;
  switch (tag.type) {
    case 'u16':
      return at.readUInt16BE();
    case 'i16':
      return tag.scale === undefined ? at.readInt16BE() : at.readInt16BE() / 10;
    case 'u32':
      return at.readUInt32BE();
    case 'f32':
      return at.readFloatBE();
    case 'u64':
      return at.readBigUInt64BE().toString();
    case 'string':
      return at.toString('latin1').replace(/\0+$/, '');
    default:
      throw new Error(`no register holds a ${tag.type}`);
  }
}

const WORDS = { u16: 1, i16: 1, u32: 2, f32: 2, u64: 4, string: 8, bool: 1 } as const;

test('modbus-serial reads every tag, and the truth file holds exactly what it read', async (t) => {
  const truthFile = join(tempDir(t), 'truth.ndjson');
  const plc = await SimulatedPlc.open({ port: 0, seed: 5, truthFile });
  const client = new ModbusRTU();
  t.after(() => plc.close());
  await client.connectTCP('127.0.0.1', { port: plc.port });
  client.setTimeout(5000);
  const read: Omit<TruthRecord, 'ts'>[] = [];
  let request = 0;
  for (let round = 0; round < 3; round++) {
    for (const tag of LINE_TAGS) {
      client.setID(tag.unit);
      const address = Number(tag.at.slice(3));
      request++;
      let value: TruthRecord['value'];
      if (tag.type === 'bool') value = (await client.readCoils(address, 1)).data[0]!;
      else value = decode(tag, (await client.readHoldingRegisters(address, WORDS[tag.type])).buffer);
      read.push({ n: read.length + 1, asset: tag.asset, metric: tag.name, value, request });
    }
  }
  // One request over all registers is one record for each of its seven tags; FC4 and FC2 mirror FC3 and FC1.
  client.setID(4);
  const block = await client.readInputRegisters(0, 20);
  request++;
  for (const tag of LINE_TAGS.filter((one) => one.unit === 4 && one.type !== 'bool')) {
    const from = Number(tag.at.slice(3)) * 2;
    const value = decode(tag, block.buffer.subarray(from, from + WORDS[tag.type as 'u16'] * 2));
    read.push({ n: read.length + 1, asset: tag.asset, metric: tag.name, value, request });
  }
  // Half of a tag is none of it.
  await client.readHoldingRegisters(9, 3);
  await new Promise<void>((resolve) => client.close(() => resolve()));
  const served = plc.served();
  await plc.close();
  const truth = readFileSync(truthFile, 'utf8').trimEnd().split('\n');
  assert.deepEqual(
    truth.map((line) => {
      const { ts, ...record } = JSON.parse(line) as TruthRecord;
      assert.equal(typeof ts, 'number');
      return record;
    }),
    read,
  );
  assert.equal(served.readings, read.length);
  assert.equal(served.reads, request + 1);
  assert.deepEqual(
    served.perAsset,
    Object.fromEntries(LINE_ASSETS.map((asset) => [asset, read.filter((one) => one.asset === asset).length])),
  );
});

test('a second start begins the truth file anew, and one that cannot be written is refused', async (t) => {
  const dir = tempDir(t);
  await assert.rejects(SimulatedPlc.open({ port: 0, truthFile: join(dir, 'no', 'such') }), { code: 'sim.io' });
  const plc = await SimulatedPlc.open({ port: 0, truthFile: join(dir, 'truth') });
  await plc.close();
  await plc.close();
  assert.equal(readFileSync(join(dir, 'truth'), 'utf8'), '');
});
