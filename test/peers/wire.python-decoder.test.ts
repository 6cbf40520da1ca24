import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { encodeColumns } from '../../src/wire/columns.js';
import { compress } from '../../src/wire/compress.js';
import { JsonScanner } from '../../src/wire/json-scan.js';
import { peerWith } from '../helpers/peers.js';
import { Random } from '../helpers/random.js';
import { randomRows } from '../helpers/random-rows.js';
import { reading, readingRow, source } from '../helpers/rows.js';

const DECODER = 'test/fixtures/decode_batch.py';
const python = peerWith('/usr/bin/python3', ['-c', 'import msgpack'], 'python3-msgpack');

function run(
  program: string,
  args: string[],
  input: Buffer,
): { code: number | null; lines: unknown[]; stderr: string } {
  const { status, stdout, stderr } = spawnSync(program, args, { input, maxBuffer: 64 * 1024 * 1024 });
  const lines = stdout.toString().split('\n').filter(Boolean);
  return { code: status, lines: lines.map(parse), stderr: stderr.toString() };
}

/** As JSON, with integers exact; the two languages print the same float differently. */
function parse(line: string): unknown {
  const scanner = new JsonScanner();
  scanner.start(Buffer.from(line));
  return scanner.value();
}

test('a short Python decoder and `holdfast decode` read the same rows', { skip: python.skip }, async () => {
  for (let seed = 100; seed < 106; seed++) {
    const plain = encodeColumns(source(), randomRows(new Random(seed), 150));
    for (const bytes of [plain, await compress(plain)]) {
      const theirs = run(python.path, [DECODER], bytes);
      const ours = run(process.execPath, ['dist/src/main.js', 'decode'], bytes);
      assert.deepEqual([theirs.code, theirs.stderr], [0, '']);
      assert.deepEqual([ours.code, ours.stderr], [0, '']);
      assert.deepEqual([ours.lines.length, theirs.lines.length], [150, 150]);
      for (const [n, line] of ours.lines.entries()) assert.deepEqual(line, theirs.lines[n], `seed ${seed}`);
    }
  }
});

test('units of measure do not disturb a decoder that knows nothing of them', { skip: python.skip }, () => {
  const rows = [readingRow(1, reading('f', 1.5)), readingRow(2, reading('f', 2.5))];
  const units = new Map([['press01', new Map([['temperature', '°C']])]]);
  const [without, withUnits] = [encodeColumns(source(), rows), encodeColumns(source(), rows, { units })];
  assert.ok(withUnits.length > without.length);
  const read = run(python.path, [DECODER], withUnits);
  assert.deepEqual([read.code, read.stderr, read.lines.length], [0, '', 2]);
  assert.deepEqual(read.lines, run(python.path, [DECODER], without).lines);
});
