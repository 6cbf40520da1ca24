import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCsv } from '../../src/config/csv.js';

const cells = (text: string) => parseCsv(text).rows.map((row) => Object.values(row.cells));

test('the separator is the one that the first line has', () => {
  for (const separator of [',', ';', '\t']) {
    const text = [`a${separator}b`, `1${separator}2`].join('\n');
    assert.deepEqual(parseCsv(text), { columns: ['a', 'b'], rows: [{ line: 2, cells: { a: '1', b: '2' } }] });
  }
});

test('quotes hold separators, line ends and quotes; a byte order mark and empty lines are nothing', () => {
  assert.deepEqual(cells('\uFEFFA,B\r\n"x,y","say ""hi"""\r\n\r\n,\r\n"two\nlines",3'), [
    ['x,y', 'say "hi"'],
    ['two\nlines', '3'],
  ]);
  assert.deepEqual(
    parseCsv('a\n"1\n2"\n3').rows.map(({ line }) => line),
    [2, 4],
  );
});

test('a row may be short, and a quote must be closed', () => {
  assert.deepEqual(cells('a,b,c\n1'), [['1', '', '']]);
  assert.deepEqual(parseCsv('').rows, []);
  assert.throws(() => parseCsv('a\n1\n"2'), /line 3: a quote is never closed/);
});
