import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { TallySender } from '../../src/bridge/tally-sender.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import type { Millis, Seq } from '../../src/model/ids.js';
import { message, openSpool, reading } from '../helpers/spool.js';
import { tallied, told, truth } from '../helpers/tallies.js';
import { tempDir } from '../helpers/tmp.js';

const HOUR = 3_600_000;
const START = 1_790_000_000_000;
const now = () => Date.now() as Millis;
const rows = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => tallied(from + n));

test('what is told is exactly what was spooled, whatever was acknowledged meanwhile', async (t) => {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue(rows(1, 700));
  spool.acknowledge(650 as Seq);
  await spool.enqueue(rows(701, 1000));
  assert.ok((await spool.tally(now(), true)) > 0);
  assert.deepEqual(await told(spool), truth(1000));
  assert.equal(await spool.tally(now(), true), 0);
});

test('an hour that is not over is told about when it has many readings, and in the end', async (t) => {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  const hour = (START - (START % HOUR)) as Millis;
  const inHour = (count: number) => Array.from({ length: count }, (_, n) => reading(0, hour + n));
  await spool.enqueue(inHour(99));
  assert.equal(await spool.tally((hour + HOUR) as Millis), 0);
  await spool.enqueue(inHour(1));
  assert.equal(await spool.tally((hour + 1) as Millis), 1);
  await spool.enqueue(inHour(5));
  assert.equal(await spool.tally((hour + HOUR) as Millis), 0);
  assert.equal(await spool.tally((hour + HOUR + 60_000) as Millis), 1);
  assert.deepEqual(
    (await told(spool)).map(({ count, first, last }) => [count, first, last]),
    [[105, 1, 106]],
  );
});

test('a reading that comes after its tally was put away begins another one', async (t) => {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue([reading(0), reading(0)]);
  const later = (now() + 365 * 24 * HOUR) as Millis;
  assert.equal(await spool.tally(later), 1);
  await spool.enqueue([reading(0)]);
  assert.equal(await spool.tally(later), 1);
  assert.deepEqual(
    (await told(spool)).map(({ count, first, last }) => [count, first, last]),
    [
      [2, 1, 2],
      [1, 4, 4],
    ],
  );
});

test('rows that were rolled back are not counted, their neighbours are', async (t) => {
  const { store, spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  const bad = { ...spool.row(reading(0)), args: [null, Buffer.of(1), null, 0x21, 'a0', 'm0', START, 1] };
  const settled = await Promise.allSettled([
    spool.enqueue([reading(0), reading(0)]),
    store.commit([spool.row(reading(0)), bad]),
    spool.enqueue([reading(0), message(1)]),
  ]);
  assert.deepEqual(
    settled.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  await spool.tally(now(), true);
  assert.deepEqual(
    (await told(spool)).map(({ count }) => count),
    [3],
  );
});

test('a row that was set aside as too large is counted too: it is missing in the cloud', async (t) => {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  const [first] = await spool.enqueue([reading(0), reading(0)]);
  await spool.bury(first as Seq, 'too-large');
  await spool.tally(now(), true);
  assert.equal((await told(spool))[0]?.count, 2);
});

test('the gateway tells what is left when it closes, but not in a spool that has no room', async (t) => {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue(rows(1, 40));
  let room = false;
  const sender = () => new TallySender({ spool, hasRoom: () => room, clock: systemClock, log: silentLog });
  await sender().close(10_000);
  assert.equal(spool.tail, 40);
  room = true;
  await sender().close(0);
  assert.equal(spool.tail, 40);
  await sender().close(10_000);
  assert.deepEqual(await told(spool), truth(40));
});

test('killed in the middle again and again, it has counted every durable reading once', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  for (let round = 1; round <= 4; round++) {
    const child = spawn(process.execPath, ['dist/test/fixtures/spool-tally-child.js', path], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    let lines = 0;
    const reader = createInterface(child.stdout);
    reader.on('line', () => {
      if (++lines === 20 + round * 37) child.kill('SIGKILL');
    });
    await Promise.all([once(child, 'exit'), once(reader, 'close')]);
    assert.ok(lines >= 20 + round * 37);
  }
  const { spool } = await openSpool(t, path);
  const last = spool.tail;
  await spool.tally(now(), true);
  assert.deepEqual(await told(spool, last), truth(last));
});
