import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Seq } from '../../src/model/ids.js';
import { layoutOf } from '../../src/store/layout.js';
import { payloadsOf } from '../helpers/damage.js';
import { message, openSpool } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { canMount, smallDisk } from '../helpers/tmpfs.js';
import { until } from '../helpers/wait.js';

const MIB = 1024 * 1024;
const payload = (n: number) => Buffer.from(`m${n}`.padEnd(4_000, '.'));

type Opened = Awaited<ReturnType<typeof openSpool>>;

/** Submits until the device is full; what is acknowledged later is counted, too. */
async function fill({ store, spool }: Opened) {
  const acked: number[] = [];
  let next = 0;
  await until('the device is full', () => {
    for (let end = next + 20; next < end; next++) {
      const n = next;
      store.submit([spool.row(message(n, payload(n)))], (error) => {
        if (!error) acked.push(n);
      });
    }
    return store.state === 'full';
  });
  return { acked, submitted: next };
}

async function onSmallDisk(t: TestContext, mib = 16) {
  const disk = smallDisk(t, mib);
  const path = join(disk.dir, 'spool.db');
  const options = { ...layoutOf(8 * MIB), pagesMax: 1_000_000 };
  return { disk, path, options, opened: await openSpool(t, path, options) };
}

test('what is acknowledged on the way to a full device is in the file, and deletions make room again', {
  skip: canMount,
}, async (t) => {
  const { path, opened } = await onSmallDisk(t);
  const { store, spool } = opened;
  assert.ok(existsSync(`${path}-ballast`));
  const { acked, submitted } = await fill(opened);
  assert.ok(!existsSync(`${path}-ballast`), 'the ballast is given up');
  assert.ok(acked.length < submitted);
  const rows = await spool.peek(0 as Seq, 1_000_000, 1e9);
  assert.deepEqual(
    rows.map((row) => Buffer.from(row.payload)),
    acked.map(payload),
  );
  // The cloud takes what there is, again and again.
  await until('everything is acknowledged', async () => {
    const { head, tail } = await spool.stats();
    if (tail >= head) spool.acknowledge(tail);
    return acked.length === submitted;
  });
  await until('open again', () => store.state === 'open');
  assert.ok(existsSync(`${path}-ballast`), 'and the ballast is back');
  assert.ok((await spool.stats()).balanced);
});

test('killed on the full device, without its ballast: the next start has every acknowledged row', {
  skip: canMount,
}, async (t) => {
  const { disk, path, options, opened } = await onSmallDisk(t);
  const { acked } = await fill(opened);
  const killed = tempDir(t);
  for (const name of readdirSync(disk.dir)) copyFileSync(join(disk.dir, name), join(killed, name));
  await opened.store.close();

  const second = smallDisk(t, 24);
  for (const name of readdirSync(killed)) copyFileSync(join(killed, name), join(second.dir, name));
  second.fill();
  const again = await openSpool(t, join(second.dir, 'spool.db'), options);
  assert.deepEqual(
    (await payloadsOf(again)).map((text) => text.replace(/\.+$/, '')),
    acked.map((n) => `m${n}`),
  );
  assert.ok(!existsSync(`${path}-quarantine`));
  let done = false;
  again.store.submit([again.spool.row(message(1))], (error) => {
    done = !error;
  });
  await until('it knows', () => again.store.state === 'full');
  assert.equal(done, false);
  second.free();
  await until('it goes on by itself', () => done);
  assert.equal(again.store.state, 'open');
});

test('a new file on a full device: a clear refusal, and nothing half made stays', { skip: canMount }, async (t) => {
  const disk = smallDisk(t, 1);
  disk.fill();
  await assert.rejects(openSpool(t, join(disk.dir, 'spool.db')), { code: 'spool.full' });
  disk.free();
  const { spool } = await openSpool(t, join(disk.dir, 'spool.db'));
  assert.deepEqual(await spool.enqueue([message(1)]), [1]);
});

test('full again and again on a device that others have nearly filled: what the cloud has always leaves', {
  skip: canMount,
}, async (t) => {
  for (const leftBytes of [0, 1, 1.5, 2, 2.5, 3, 4].map((mib) => mib * MIB)) {
    const { disk, opened } = await onSmallDisk(t);
    const { store, spool } = opened;
    disk.fill(leftBytes);
    for (let round = 0; round < 6; round++) {
      const { submitted } = await fill(opened);
      assert.ok(submitted > 0);
      const { head, tail } = await spool.stats();
      const upTo = round === 5 ? tail : Math.floor(head + (tail - head) / 3);
      if (upTo >= head) spool.acknowledge(upTo as Seq);
      await until(
        `round ${round}, ${leftBytes} left: they leave`,
        async () => (await spool.stats()).head > upTo,
        5_000,
      );
    }
    disk.free();
    await until('it is open', () => store.state === 'open');
    await store.close();
  }
});

test('at its limit: a row that finds no room to be set aside does not hold up what makes room', async (t) => {
  const { store, spool } = await openSpool(t, join(tempDir(t), 'spool.db'), { pagesMax: 140, logPagesMax: 20 });
  const { acked, submitted } = await fill({ store, spool });
  const { head, tail } = await spool.stats();
  const burial = spool.bury(tail, 'not what was written');
  spool.acknowledge((head + 9) as Seq);
  await until('ten have left', async () => (await spool.stats()).acknowledged === 10);
  spool.acknowledge((tail - 1) as Seq);
  assert.equal(await burial, true);
  await until('the others are taken', () => acked.length === submitted);
  const { acknowledged, dead, rows, balanced } = await spool.stats();
  assert.deepEqual([acknowledged, dead, rows, balanced], [tail - head, 1, submitted - (tail - head) - 1, true]);
});
