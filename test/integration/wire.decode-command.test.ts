import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Seq } from '../../src/model/ids.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { reading, readingRow, source, T0 } from '../helpers/rows.js';
import { tempDir } from '../helpers/tmp.js';

const decode = (args: string[], input?: Buffer) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['dist/src/main.js', 'decode', ...args], { input });
  return { status, stdout: stdout.toString(), stderr: stderr.toString() };
};

test('a batch in a file is printed row by row, integers in full', (t) => {
  const file = join(tempDir(t), 'batch');
  const lost = [{ from: 1 as Seq, to: 6 as Seq, reason: 'spool-full' }];
  const rows = [readingRow(7, reading('i', 2n ** 64n - 1n)), readingRow(8, reading('f', Number.NaN, { quality: 24 }))];
  writeFileSync(file, encodeColumns(source(), rows, { lost }));
  const head =
    '"gw":"line-1","ep":"01J9ZQ3K6W8F","topic":"plant/press01/temperature","asset":"press01","metric":"temperature"';
  assert.deepEqual(decode([file]), {
    status: 0,
    stdout:
      `{"seq":7,${head},"ts":${T0},"type":"i","q":192,"value":18446744073709551615}\n` +
      `{"seq":8,${head},"ts":${T0},"type":"f","q":24,"value":"NaN"}\n`,
    stderr: 'lost: seq 1 to 6, spool-full\n',
  });
});

test('bytes that are no batch end with 65, a file that is not there with 64', (t) => {
  const { status, stdout, stderr } = decode(['-'], Buffer.from('no batch'));
  assert.deepEqual([status, stdout], [65, '']);
  assert.match(stderr, /malformed/);
  assert.equal(decode([join(tempDir(t), 'absent')]).status, 64);
});
