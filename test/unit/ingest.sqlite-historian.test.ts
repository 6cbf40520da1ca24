import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Seq } from '../../src/model/ids.js';
import type { ReadingType, ReadingValue } from '../../src/model/reading.js';
import { batchOf, rowsFrom } from '../helpers/batches.js';
import { ask, openHistorian, stoppedClock } from '../helpers/historian.js';
import { gapRow, opaqueRow, reading, readingRow, T0 } from '../helpers/rows.js';

const NOTHING = { stored: 0, duplicates: 0, conflicts: 0, gaps: 0, quarantined: 0, opaque: 0 };
const VIEW = 'SELECT asset_id, metric_name, device_ts, value, quality FROM readings_view ORDER BY 1, 2, 3';
const gap = { from: T0 as never, to: (T0 + 60_000) as never, reason: 'device-unreachable', count: 12 };

test('a batch that comes again changes nothing, whole or in part', async (t) => {
  const { historian, path } = await openHistorian(t);
  const rows = [
    ...rowsFrom(1, 10),
    opaqueRow(11, Buffer.from('raw')),
    gapRow(12, 'press01', null, gap),
    gapRow(13, 'press01', 'temperature', gap),
  ];
  assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, stored: 10, opaque: 1, gaps: 2 });
  const before = ask(path, VIEW);
  assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, duplicates: 13 });
  assert.deepEqual(await historian.ingest(batchOf(rows.slice(3, 12))), { ...NOTHING, duplicates: 9 });
  assert.deepEqual(ask(path, VIEW), before);
  assert.equal(before.length, 10);
  assert.deepEqual(historian.ledger()[0]?.received, [{ from: 1, to: 13 }]);
  assert.equal(historian.totals().duplicates, 22);
  assert.equal(historian.totals().rows, 35);
});

test('the same value from another identity is a duplicate, another value is kept as a conflict, once', async (t) => {
  const { historian, path } = await openHistorian(t);
  await historian.ingest(batchOf([readingRow(1, reading('f', 20))]));
  const same = batchOf([readingRow(1, reading('f', 20))], 'line-1', 'e2');
  assert.deepEqual(await historian.ingest(same), { ...NOTHING, duplicates: 1 });
  const other = batchOf([readingRow(2, reading('f', 21.5, { quality: 24 }))], 'line-1', 'e2');
  assert.deepEqual(await historian.ingest(other), { ...NOTHING, conflicts: 1 });
  assert.deepEqual(await historian.ingest(other), { ...NOTHING, duplicates: 1 });
  assert.deepEqual(ask(path, 'SELECT value, quality, seq FROM conflicts'), [{ value: 21.5, quality: 24, seq: 2 }]);
  assert.deepEqual(
    ask(path, 'SELECT value FROM readings').map((row) => row.value),
    [20],
  );
});

test('two readings of one key inside one batch are a conflict as well', async (t) => {
  const { historian } = await openHistorian(t);
  const rows = [readingRow(1, reading('f', 1)), readingRow(2, reading('f', 2)), readingRow(3, reading('f', 1))];
  assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, stored: 1, conflicts: 1, duplicates: 1 });
});

test('every type of value is kept exactly', async (t) => {
  const { historian, path } = await openHistorian(t);
  const cases: [ReadingType, ReadingValue, unknown, string][] = [
    ['f', 20, 20, 'real'],
    ['f', 0.1, 0.1, 'real'],
    ['f', Number.NaN, 'NaN', 'text'],
    ['f', -Infinity, -Infinity, 'real'],
    ['f', null, null, 'null'],
    ['i', 5, 5n, 'integer'],
    ['i', 2n ** 63n - 1n, 2n ** 63n - 1n, 'integer'],
    ['i', -(2n ** 63n), -(2n ** 63n), 'integer'],
    ['i', 2n ** 64n - 1n, '18446744073709551615', 'text'],
    ['b', true, 1n, 'integer'],
    ['b', false, 0n, 'integer'],
    ['s', 'grün \0 ☃', 'grün \0 ☃', 'text'],
    ['x', Buffer.of(0, 255), Buffer.of(0, 255), 'blob'],
    ['j', { a: [1, null] }, '{"a":[1,null]}', 'text'],
  ];
  const rows = cases.map(([type, value], n) => readingRow(n + 1, reading(type, value, { metric: `m${n}` })));
  await historian.ingest(batchOf(rows));
  // The same values once more from a new spool must be recognised, NaN included.
  assert.equal((await historian.ingest(batchOf(rows, 'line-1', 'e2'))).duplicates, cases.length);
  const { default: Database } = await import('better-sqlite3');
  const db = new Database(path, { readonly: true });
  t.after(() => db.close());
  const stored = db
    .prepare('SELECT readings.type, value, typeof(value) AS kind FROM readings ORDER BY seq')
    .safeIntegers()
    .all();
  assert.deepEqual(
    stored,
    cases.map(([type, , value, kind]) => ({ type, value, kind })),
  );
});

test('a series that changes its type goes on', async (t) => {
  const { historian, path } = await openHistorian(t);
  const at = (n: number) => ({ ts: (T0 + n) as never });
  const values: [ReadingType, ReadingValue][] = [
    ['f', 1.5],
    ['s', 'open'],
    ['b', true],
    ['f', 2.5],
  ];
  const rows = values.map(([type, value], n) => readingRow(n + 1, reading(type, value, at(n))));
  assert.equal((await historian.ingest(batchOf(rows))).stored, 4);
  assert.deepEqual(
    ask(path, VIEW).map((row) => row.value),
    [1.5, 'open', 1, 2.5],
  );
  assert.deepEqual(ask(path, 'SELECT count(*) AS n, max(type) AS type FROM series'), [{ n: 1, type: 'f' }]);
});

test('batches out of order leave a hole until the missing one comes', async (t) => {
  const { historian } = await openHistorian(t);
  await historian.ingest(batchOf(rowsFrom(11, 20)));
  await historian.ingest(batchOf(rowsFrom(31, 40)));
  assert.deepEqual(historian.ledger()[0]?.holes, [
    { from: 1, to: 10 },
    { from: 21, to: 30 },
  ]);
  await historian.ingest(batchOf(rowsFrom(1, 10)));
  assert.deepEqual(historian.ledger()[0]?.holes, [{ from: 21, to: 30 }]);
  await historian.ingest(batchOf(rowsFrom(19, 32)));
  const [entry] = historian.ledger();
  assert.deepEqual([entry?.holes, entry?.received, entry?.last], [[], [{ from: 1, to: 40 }], 40]);
  assert.equal(historian.totals().stored, 40);
});

test('what the gateway gave up on is no hole, and a hole inside a batch is one', async (t) => {
  const { historian } = await openHistorian(t);
  const lost = [{ from: 3 as Seq, to: 6 as Seq, reason: 'spool-full' }];
  await historian.ingest(batchOf([...rowsFrom(1, 2), ...rowsFrom(9, 9)], 'line-1', 'e1', { lost }));
  const [entry] = historian.ledger();
  assert.deepEqual(entry?.lost, [{ from: 3, to: 6 }]);
  assert.deepEqual(entry?.holes, [{ from: 7, to: 8 }]);
});

test('epochs and gateways have ledgers of their own', async (t) => {
  const { historian } = await openHistorian(t);
  await historian.ingest(batchOf(rowsFrom(1, 2)));
  await historian.ingest(batchOf(rowsFrom(1, 3), 'line-1', 'e2'));
  await historian.ingest(batchOf(rowsFrom(2, 2), 'line-2', 'e1'));
  assert.deepEqual(
    historian.ledger().map(({ gateway, epoch, last, holes }) => [gateway, epoch, last, holes.length]),
    [
      ['line-1', 'e1', 2, 0],
      ['line-1', 'e2', 3, 0],
      ['line-2', 'e1', 2, 1],
    ],
  );
});

test('a reading from the future is kept aside and does not count as the newest', async (t) => {
  const { historian, path } = await openHistorian(t, { futureMaxMs: 60_000 });
  const now = stoppedClock.now();
  const rows = [
    readingRow(1, reading('f', 1, { ts: (now + 60_000) as never })),
    readingRow(2, reading('f', 2, { ts: (now + 60_001) as never })),
  ];
  assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, stored: 1, quarantined: 1 });
  assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, duplicates: 2 });
  assert.deepEqual(ask(path, 'SELECT seq, reason, ts, value FROM quarantine'), [
    { seq: 2, reason: 'future', ts: now + 60_001, value: 2 },
  ]);
  assert.equal(historian.ledger()[0]?.newestTs, now + 60_000);
  assert.deepEqual(historian.ledger()[0]?.received, [{ from: 1, to: 2 }]);
});

test('an identity that is used for another message is kept aside, not swallowed', async (t) => {
  const { historian, path } = await openHistorian(t);
  await historian.ingest(batchOf([opaqueRow(1, Buffer.from('one')), gapRow(2, 'press01', null, gap)]));
  const restored = [opaqueRow(1, Buffer.from('two')), gapRow(2, 'press01', null, { ...gap, count: 13 })];
  assert.deepEqual(await historian.ingest(batchOf(restored)), { ...NOTHING, quarantined: 2 });
  assert.deepEqual(await historian.ingest(batchOf(restored)), { ...NOTHING, duplicates: 2 });
  assert.deepEqual(ask(path, 'SELECT seq, reason, type FROM quarantine ORDER BY seq'), [
    { seq: 1, reason: 'identity-reused', type: 'p' },
    { seq: 2, reason: 'identity-reused', type: 'g' },
  ]);
});

test('a batch that cannot be stored is refused alone, those that wait with it are stored', async (t) => {
  const { historian } = await openHistorian(t);
  const good = batchOf(rowsFrom(1, 5));
  const poison = { ...good, rows: [...good.rows.slice(0, 2), { ...good.rows[2]!, quality: 'no number' as never }] };
  const settled = await Promise.allSettled([
    historian.ingest(batchOf(rowsFrom(1, 2))),
    historian.ingest(poison),
    historian.ingest(batchOf(rowsFrom(6, 7), 'line-2')),
  ]);
  assert.deepEqual(
    settled.map((one) => (one.status === 'fulfilled' ? one.value.stored : one.reason.code)),
    [2, 'historian.rejected', 2],
  );
  assert.deepEqual([historian.totals().batches, historian.totals().rows], [2, 4]);
  assert.equal((await historian.ingest(good)).stored, 3);
});

test('dead bytes are kept once, with their reason', async (t) => {
  const { historian, path } = await openHistorian(t);
  const dead = { topic: 'edge/line-1/batch', bytes: Buffer.from('junk'), code: 'wire.malformed', reason: 'no batch' };
  await historian.bury(dead);
  await historian.bury(dead);
  assert.equal(historian.totals().deadBatches, 1);
  assert.deepEqual(ask(path, 'SELECT topic, code, reason, bytes, received_at FROM dead_batches'), [
    { ...dead, received_at: stoppedClock.now() },
  ]);
});

test('totals and ledger are the same after the file has been opened again', async (t) => {
  const { historian, path } = await openHistorian(t);
  await historian.ingest(batchOf([...rowsFrom(3, 9), opaqueRow(10, Buffer.alloc(0))]));
  const before = [historian.totals(), historian.ledger()];
  await historian.close();
  await historian.close();
  await assert.rejects(historian.ingest(batchOf(rowsFrom(1, 1))), { code: 'historian.closed' });
  assert.deepEqual([historian.totals(), historian.ledger()], before);
  const { historian: again } = await openHistorian(t, { path });
  assert.deepEqual([again.totals(), again.ledger()], before);
});

test('what waits at close is stored', async (t) => {
  const { historian, path } = await openHistorian(t);
  const outcome = historian.ingest(batchOf(rowsFrom(1, 3)));
  await historian.close();
  assert.equal((await outcome).stored, 3);
  assert.equal(ask(path, VIEW).length, 3);
});

test('a file that a newer program has written is refused untouched', async (t) => {
  const { historian, path } = await openHistorian(t);
  await historian.close();
  const { default: Database } = await import('better-sqlite3');
  const db = new Database(path);
  db.pragma('user_version = 99');
  db.close();
  await assert.rejects(openHistorian(t, { path }), { code: 'historian.version' });
});

test('a file that cannot be opened is an I/O error', async (t) => {
  await assert.rejects(openHistorian(t, { path: '/proc/no/such/place' }), { code: 'historian.io' });
});
