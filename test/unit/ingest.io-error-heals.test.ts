import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { healAfterIoError, markIoError } from '../../src/ingest/sqlite-io-error.js';
import { tempDir } from '../helpers/tmp.js';

test('after an I/O error both files come onto new blocks, byte for byte, and the mark goes', (t) => {
  const path = join(tempDir(t), 'historian.db');
  const files = [path, `${path}-wal`];
  for (const file of files) writeFileSync(file, Buffer.alloc(2_500_000, file));
  const before = files.map((file) => ({ inode: statSync(file).ino, bytes: readFileSync(file) }));
  assert.equal(healAfterIoError(path), false);
  assert.deepEqual(
    files.map((file) => statSync(file).ino),
    before.map(({ inode }) => inode),
  );
  markIoError(path, 'disk I/O error');
  assert.equal(healAfterIoError(path), true);
  for (const [n, file] of files.entries()) {
    assert.notEqual(statSync(file).ino, before[n]?.inode);
    assert.ok(before[n]?.bytes.equals(readFileSync(file)));
    assert.equal(existsSync(`${file}.new`), false);
  }
  assert.equal(healAfterIoError(path), false);
});

test('a file without a log is renewed as well, and a mark that cannot be left throws nothing', (t) => {
  const path = join(tempDir(t), 'historian.db');
  writeFileSync(path, 'db');
  markIoError(path, 'x');
  assert.equal(healAfterIoError(path), true);
  markIoError('/proc/no/such/place', 'x');
});
