import assert from 'node:assert/strict';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Ballast } from '../../src/store/ballast.js';
import { canMount, smallDisk } from '../helpers/tmpfs.js';

const MIB = 1024 * 1024;
const BYTES = 4 * MIB;

function onDevice(t: TestContext, freeBytes: number) {
  const disk = smallDisk(t, 16);
  disk.fill(freeBytes);
  const path = join(disk.dir, 'spool.db');
  return { disk, ballast: new Ballast(path, BYTES), file: `${path}-ballast` };
}

test('a ballast is whole or it is none: a smaller one could not take a log that is moved into the file', {
  skip: canMount,
}, (t) => {
  const { disk, ballast, file } = onDevice(t, BYTES + MIB / 2);
  assert.equal(ballast.restore(), false, 'nothing would be left besides it');
  assert.ok(!existsSync(file));
  disk.free();
  assert.equal(ballast.restore(), true);
  assert.equal(statSync(file).size, BYTES);
  disk.fill();
  assert.equal(ballast.restore(), true, 'it is in place, however full the device');
  assert.equal(ballast.release(), true);
  assert.equal(ballast.restore(), false, 'only the room of the ballast itself');
  assert.equal(ballast.release(), false);
});

test('one that an earlier configuration has left is made anew, or given up', { skip: canMount }, (t) => {
  const { disk, ballast, file } = onDevice(t, 3 * MIB);
  writeFileSync(file, Buffer.alloc(MIB));
  assert.equal(ballast.restore(), false);
  assert.ok(!existsSync(file), 'its room is for what drains');
  disk.free();
  assert.equal(ballast.restore(), true);
  assert.equal(statSync(file).size, BYTES);
});
