import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { healAfterIoError, markIfIoError } from '../../src/lib/sqlite-io-error.js';
import { tempDir } from '../helpers/tmp.js';

const failed = Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_FSYNC' });

test('after an I/O error both files come onto new blocks, byte for byte, and the mark goes', (t) => {
  const folder = tempDir(t);
  const path = join(folder, 'historian.db');
  const files = [path, `${path}-wal`];
  for (const file of files) writeFileSync(file, Buffer.alloc(2_500_000, file));
  const before = files.map((file) => ({ inode: statSync(file).ino, bytes: readFileSync(file) }));
  assert.equal(healAfterIoError(path), false);
  assert.deepEqual(
    files.map((file) => statSync(file).ino),
    before.map(({ inode }) => inode),
  );
  assert.equal(markIfIoError(path, failed), true);
  assert.equal(existsSync(path), false, 'nobody takes the file for sound');
  assert.equal(healAfterIoError(path), true);
  for (const [n, file] of files.entries()) {
    assert.notEqual(statSync(file).ino, before[n]?.inode);
    assert.ok(before[n]?.bytes.equals(readFileSync(file)));
  }
  assert.deepEqual(readdirSync(folder).sort(), ['historian.db', 'historian.db-wal']);
  assert.equal(healAfterIoError(path), false);
});

test('SQLite leaves a marked file and its log alone when the connection is closed', (t) => {
  const path = join(tempDir(t), 'spool.db');
  const db = new Database(path);
  db.pragma('locking_mode = EXCLUSIVE');
  db.pragma('journal_mode = WAL');
  db.exec('CREATE TABLE t (a); INSERT INTO t VALUES (1)');
  const log = readFileSync(`${path}-wal`);
  markIfIoError(path, failed);
  db.close();
  assert.ok(readFileSync(`${path}-wal`).equals(log), 'no checkpoint');
  assert.equal(healAfterIoError(path), true);
  const again = new Database(path);
  assert.equal(again.prepare('SELECT count(*) FROM t').pluck().get(), 1);
  again.close();
});

test('other errors leave no mark, and one that cannot be left throws nothing', (t) => {
  const path = join(tempDir(t), 'historian.db');
  writeFileSync(path, 'db');
  for (const code of ['SQLITE_FULL', 'SQLITE_BUSY', 'SQLITE_IOERR_READ', 'SQLITE_IOERR_LOCK'])
    assert.equal(markIfIoError(path, Object.assign(new Error(code), { code })), false);
  assert.ok(existsSync(path));
  assert.equal(markIfIoError('/proc/no/such/place', failed), true);
});

test('a file beside a marked one is not overwritten', (t) => {
  const path = join(tempDir(t), 'spool.db');
  writeFileSync(path, 'old');
  markIfIoError(path, failed);
  writeFileSync(path, 'new');
  assert.throws(() => healAfterIoError(path), /only one of them/);
  assert.equal(readFileSync(path, 'utf8'), 'new');
  assert.equal(readFileSync(`${path}-ioerr`, 'utf8'), 'old');
});
