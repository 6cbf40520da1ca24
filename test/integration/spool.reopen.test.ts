import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/lib/clock.js';
import type { Seq } from '../../src/model/ids.js';
import { Spool } from '../../src/spool/spool.js';
import { Store } from '../../src/store/store.js';
import { message, openSpool, reading } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

test('rows, totals and epoch survive a restart, and a used seq never comes back', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  const first = await openSpool(t, path);
  assert.deepEqual(await first.spool.enqueue([message(1), reading(2), message(3)]), [1, 2, 3]);
  first.spool.acknowledge(3 as Seq);
  await first.spool.close();
  await first.store.close();

  const second = await openSpool(t, path);
  assert.equal(second.spool.epoch, first.spool.epoch);
  assert.ok(second.spool.previous.closedAt);
  const stats = await second.spool.stats();
  assert.deepEqual(
    [stats.rows, stats.received, stats.acknowledged, stats.head, stats.tail, stats.oldestAt],
    [0, 3, 3, 4, 3, null],
  );
  assert.deepEqual(await second.spool.enqueue([message(4)]), [4]);
});

test('a run that was not closed in order shows as such', async (t) => {
  const path = join(tempDir(t), 'spool.db');
  const first = await Store.open({ path, tables: [Spool.tables] });
  await (await Spool.open(first, systemClock)).enqueue([message(1)]);
  await first.close();
  const { spool } = await openSpool(t, path);
  assert.equal(spool.previous.closedAt, null);
  assert.ok(Date.now() - spool.previous.aliveAt < 60_000);
});

test('a row comes back as it went in', async (t) => {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  const props = Buffer.from([0x26, 0, 1, 97, 0, 1, 98]);
  const full = { ...reading(5), topic: 'plant/größe/☃', payload: Buffer.from([0, 255, 1]), props, qos: 2 } as const;
  await spool.enqueue([full, { ...message(0, Buffer.alloc(0)), qos: 0 }]);
  const [one, two] = await spool.peek(0 as Seq, 10, 1e6);
  assert.deepEqual(
    { ...one, payload: [...(one?.payload ?? [])], props: [...(one?.props ?? [])] },
    {
      ...full,
      payload: [0, 255, 1],
      props: [...props],
      seq: 1,
      enqueuedAt: one?.enqueuedAt,
    },
  );
  assert.equal(two?.payload.length, 0);
  assert.equal(two?.type, 'p');
});

test('peek stops at its limits but gives at least one row', async (t) => {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue(Array.from({ length: 300 }, (_, n) => message(n, Buffer.alloc(1_000))));
  const seqs = async (after: number, rows: number, bytes: number) =>
    (await spool.peek(after as Seq, rows, bytes)).map((row) => row.seq);
  assert.deepEqual(await seqs(0, 3, 1e6), [1, 2, 3]);
  assert.equal((await seqs(0, 1_000, 1e9)).length, 300);
  assert.deepEqual(await seqs(10, 10, 500), [11]);
  assert.ok((await seqs(0, 1_000, 10_000)).length <= 10);
  assert.deepEqual(await seqs(300, 10, 1e6), []);
});

test('the totals agree with the rows after a mix of inserts and deletions', async (t) => {
  const { store, spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  let expectedBytes = 0;
  for (let round = 1; round <= 20; round++) {
    const inputs = Array.from({ length: round * 3 }, (_, n) => message(n, Buffer.alloc(n * 11)));
    await spool.enqueue(inputs);
    const { tail } = await spool.stats();
    spool.acknowledge((tail - round) as Seq);
    await until('deleted', async () => {
      await store.query('spool.about');
      return (await spool.stats()).rows === round;
    });
    const rows = await spool.peek(0 as Seq, 1_000, 1e9);
    expectedBytes = rows.reduce((sum, row) => sum + row.payload.length, 0);
    const stats = await spool.stats();
    assert.equal(stats.bytes, expectedBytes);
    assert.equal(stats.received, stats.rows + stats.acknowledged);
    assert.equal(stats.head, rows[0]?.seq);
    assert.equal(stats.oldestAt, rows[0]?.enqueuedAt);
  }
});
