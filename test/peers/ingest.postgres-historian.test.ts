import assert from 'node:assert/strict';
import { test } from 'node:test';
import { POSTGRES_MIGRATIONS } from '../../src/ingest/postgres-migrations.js';
import type { Seq } from '../../src/model/ids.js';
import type { ReadingType, ReadingValue } from '../../src/model/reading.js';
import { batchOf, rowsFrom } from '../helpers/batches.js';
import { stoppedClock } from '../helpers/historian.js';
import { openPostgres, skipPostgres as skip } from '../helpers/postgres.js';
import { gapRow, opaqueRow, reading, readingRow, T0 } from '../helpers/rows.js';
import { until } from '../helpers/wait.js';

const NOTHING = { stored: 0, duplicates: 0, conflicts: 0, gaps: 0, quarantined: 0, opaque: 0 };
const VIEW = 'SELECT asset_id, metric_name, device_ts, value, quality FROM holdfast.readings_view ORDER BY 1, 2, 3';
const gap = { from: T0 as never, to: (T0 + 60_000) as never, reason: 'device-unreachable', count: 12 };

test('a batch that comes again changes nothing, whole or in part', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t);
  const rows = [
    ...rowsFrom(1, 10),
    opaqueRow(11, Buffer.from('raw')),
    gapRow(12, 'press01', null, gap),
    gapRow(13, 'press01', 'temperature', gap),
  ];
  assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, stored: 10, opaque: 1, gaps: 2 });
  const before = await sql(VIEW);
  assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, duplicates: 13 });
  assert.deepEqual(await historian.ingest(batchOf(rows.slice(3, 12))), { ...NOTHING, duplicates: 9 });
  assert.deepEqual(await sql(VIEW), before);
  assert.equal(before.length, 10);
  assert.deepEqual(historian.ledger()[0]?.received, [{ from: 1, to: 13 }]);
  assert.deepEqual([historian.totals().duplicates, historian.totals().rows], [22, 35]);
});

test("the views have the seeds' columns", { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t);
  await historian.ingest(batchOf(rowsFrom(1, 1)));
  const device_ts = new Date(T0 + 1000);
  assert.deepEqual(await sql('SELECT asset_id, metric_name, device_ts, value FROM holdfast.readings_view'), [
    { asset_id: 'press01', metric_name: 'temperature', device_ts, value: 1 },
  ]);
  assert.deepEqual(await sql('SELECT time, device_id, metric_type, value FROM holdfast.sensor_readings'), [
    { time: device_ts, device_id: 'press01', metric_type: 'temperature', value: 1 },
  ]);
});

test('the same value from another identity is absorbed, another value is kept as a conflict, once', {
  skip,
}, async (t) => {
  const { historian, sql } = await openPostgres(t);
  await historian.ingest(batchOf([readingRow(1, reading('f', 20))]));
  const same = batchOf([readingRow(1, reading('f', 20))], 'line-1', 'e2');
  assert.deepEqual(await historian.ingest(same), { ...NOTHING, duplicates: 1 });
  const other = batchOf([readingRow(2, reading('f', 21.5, { quality: 24 }))], 'line-1', 'e2');
  assert.deepEqual(await historian.ingest(other), { ...NOTHING, conflicts: 1 });
  assert.deepEqual(await historian.ingest(other), { ...NOTHING, duplicates: 1 });
  assert.deepEqual(await sql('SELECT number, quality, seq FROM holdfast.conflicts'), [
    { number: 21.5, quality: 24, seq: 2 },
  ]);
  assert.deepEqual(await sql('SELECT number FROM holdfast.readings'), [{ number: 20 }]);
  assert.deepEqual(await sql('SELECT seq FROM holdfast.absorbed'), [{ seq: 1 }]);
});

test('two readings of one key inside one batch are a conflict as well, and the first one stays', {
  skip,
}, async (t) => {
  const { historian, sql } = await openPostgres(t);
  const rows = [readingRow(1, reading('f', 1)), readingRow(2, reading('f', 2)), readingRow(3, reading('f', 1))];
  assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, stored: 1, conflicts: 1, duplicates: 1 });
  assert.deepEqual(await sql('SELECT number, seq FROM holdfast.readings'), [{ number: 1, seq: 1 }]);
});

test('every type of value is kept exactly', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t);
  const none = { number: null, whole: null, text: null, bytes: null };
  const cases: [ReadingType, ReadingValue, object][] = [
    ['f', 20, { number: 20 }],
    ['f', 0.1, { number: 0.1 }],
    ['f', Number.NaN, { number: Number.NaN }],
    ['f', Number.NEGATIVE_INFINITY, { number: Number.NEGATIVE_INFINITY }],
    ['f', 5e-324, { number: 5e-324 }],
    ['f', null, {}],
    ['i', 5, { whole: '5' }],
    ['i', -(2n ** 63n), { whole: '-9223372036854775808' }],
    ['i', 2n ** 64n - 1n, { whole: '18446744073709551615' }],
    ['b', true, { whole: '1' }],
    ['b', false, { whole: '0' }],
    ['s', 'grün "☃" \\ {},', { text: 'grün "☃" \\ {},' }],
    ['s', '', { text: '' }],
    ['s', 'NULL', { text: 'NULL' }],
    ['s', 'a\0b', { bytes: Buffer.from('a\0b') }],
    ['x', Buffer.of(0, 255), { bytes: Buffer.of(0, 255) }],
    ['j', { a: [1, null, '\0'] }, { text: '{"a":[1,null,"\\u0000"]}' }],
  ];
  const rows = cases.map(([type, value], n) => readingRow(n + 1, reading(type, value, { metric: `m${n}` })));
  assert.equal((await historian.ingest(batchOf(rows))).stored, cases.length);
  // The same values once more from a new spool must be recognised, NaN included.
  assert.deepEqual(await historian.ingest(batchOf(rows, 'line-1', 'e2')), { ...NOTHING, duplicates: cases.length });
  assert.deepEqual(
    await sql('SELECT type, number, whole, text, bytes FROM holdfast.readings ORDER BY seq'),
    cases.map(([type, , columns]) => ({ type, ...none, ...columns })),
  );
});

test('device times are exact to the millisecond, and those no timestamp can hold are kept aside', {
  skip,
}, async (t) => {
  const { historian, sql } = await openPostgres(t, { futureMaxMs: Number.MAX_SAFE_INTEGER });
  const kept = [0, -1, -8_999_999_999_999, 1_790_000_000_123, T0 + 86_400_000, 9_007_199_254_740];
  const aside = [-9_007_199_254_741, 9_007_199_254_741, Number.MAX_SAFE_INTEGER];
  const rows = [...kept, ...aside].map((ts, n) => readingRow(n + 1, reading('f', n, { ts: ts as never })));
  const farGap = gapRow(100, 'a', null, { ...gap, from: Number.MIN_SAFE_INTEGER as never });
  assert.deepEqual(await historian.ingest(batchOf([...rows, farGap])), { ...NOTHING, stored: 6, quarantined: 4 });
  const stored = await sql(
    'SELECT (extract(epoch FROM device_ts) * 1000)::bigint AS ts FROM holdfast.readings ORDER BY seq',
  );
  assert.deepEqual(
    stored.map(({ ts }) => ts),
    kept,
  );
});

test('batches out of order leave a hole until the missing one comes; what was given up is none', {
  skip,
}, async (t) => {
  const { historian } = await openPostgres(t);
  await historian.ingest(batchOf(rowsFrom(11, 20)));
  const lost = [{ from: 21 as Seq, to: 25 as Seq, reason: 'spool-full' }];
  await historian.ingest(batchOf(rowsFrom(31, 40), 'line-1', 'e1', { lost }));
  assert.deepEqual(historian.ledger()[0]?.holes, [
    { from: 1, to: 10 },
    { from: 26, to: 30 },
  ]);
  await historian.ingest(batchOf(rowsFrom(1, 10)));
  await historian.ingest(batchOf(rowsFrom(19, 32)));
  const [entry] = historian.ledger();
  assert.deepEqual(
    [entry?.holes, entry?.received, entry?.lost, entry?.last],
    [[], [{ from: 1, to: 40 }], [{ from: 21, to: 25 }], 40],
  );
});

test('a reading from the future is kept aside and does not count as the newest', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t, { futureMaxMs: 60_000 });
  const now = stoppedClock.now();
  const rows = [
    readingRow(1, reading('f', 1, { ts: (now + 60_000) as never })),
    readingRow(2, reading('f', 2, { ts: (now + 60_001) as never })),
  ];
  assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, stored: 1, quarantined: 1 });
  assert.deepEqual(await historian.ingest(batchOf(rows)), { ...NOTHING, duplicates: 2 });
  assert.deepEqual(await sql('SELECT seq, reason, ts, number FROM holdfast.quarantine'), [
    { seq: 2, reason: 'future', ts: now + 60_001, number: 2 },
  ]);
  assert.equal(historian.ledger()[0]?.newestTs, now + 60_000);
});

test('an identity that is used for another message is kept aside, not swallowed', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t);
  await historian.ingest(batchOf([opaqueRow(1, Buffer.from('one')), gapRow(2, 'press01', null, gap)]));
  const restored = [opaqueRow(1, Buffer.from('two')), gapRow(2, 'press01', null, { ...gap, count: 13 })];
  assert.deepEqual(await historian.ingest(batchOf(restored)), { ...NOTHING, quarantined: 2 });
  assert.deepEqual(await historian.ingest(batchOf(restored)), { ...NOTHING, duplicates: 2 });
  assert.deepEqual(await sql('SELECT seq, reason, type FROM holdfast.quarantine ORDER BY seq'), [
    { seq: 1, reason: 'identity-reused', type: 'p' },
    { seq: 2, reason: 'identity-reused', type: 'g' },
  ]);
});

test('a batch that cannot be stored is refused and leaves nothing; the next ones are stored', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t);
  const good = batchOf(rowsFrom(1, 5));
  const poison = { ...good, rows: [...good.rows.slice(0, 2), { ...good.rows[2]!, quality: 'no number' as never }] };
  const nul = batchOf([opaqueRow(9, Buffer.from('x'), { topic: 'a\0b' })], 'line-3');
  const settled = await Promise.allSettled([
    historian.ingest(poison),
    historian.ingest(nul),
    historian.ingest(batchOf(rowsFrom(6, 7))),
    historian.ingest(batchOf(rowsFrom(6, 7), 'line-2')),
  ]);
  assert.deepEqual(
    settled.map((one) => (one.status === 'fulfilled' ? one.value.stored + one.value.duplicates : one.reason.code)),
    ['historian.rejected', 'historian.rejected', 2, 2],
  );
  assert.deepEqual([historian.totals().batches, historian.totals().rows], [2, 4]);
  assert.equal((await sql('SELECT count(*) AS n FROM holdfast.readings'))[0]?.n, 2);
  assert.equal((await historian.ingest(good)).stored, 5);
});

test('dead bytes are kept once, with their reason', { skip }, async (t) => {
  const { historian, sql } = await openPostgres(t);
  const dead = { topic: 'edge/line-1/batch', bytes: Buffer.from('junk'), code: 'wire.malformed', reason: 'no batch' };
  await historian.bury(dead);
  await historian.bury(dead);
  assert.equal(historian.totals().deadBatches, 1);
  assert.deepEqual(await sql('SELECT topic, code, reason, bytes, received_at FROM holdfast.dead_batches'), [
    { ...dead, received_at: new Date(stoppedClock.now()) },
  ]);
});

test('totals and ledger are the same for a worker that starts later, and what waits at close is stored', {
  skip,
}, async (t) => {
  const { historian, url } = await openPostgres(t);
  const outcome = historian.ingest(batchOf([...rowsFrom(3, 9), opaqueRow(10, Buffer.alloc(0))]));
  await historian.close();
  await historian.close();
  assert.equal((await outcome).stored, 7);
  await assert.rejects(historian.ingest(batchOf(rowsFrom(1, 1))), { code: 'historian.closed' });
  const before = [historian.totals(), historian.ledger()];
  const { historian: again } = await openPostgres(t, { url });
  assert.deepEqual([again.totals(), again.ledger()], before);
});

test('a worker sees what the others have stored', { skip }, async (t) => {
  const { historian: one, url } = await openPostgres(t);
  const { historian: two } = await openPostgres(t, { url });
  await one.ingest(batchOf(rowsFrom(1, 10)));
  await two.ingest(batchOf(rowsFrom(11, 20)));
  assert.deepEqual(two.ledger()[0]?.received, [{ from: 1, to: 20 }]);
  await until('the first one to look', () => one.totals().stored === 20);
});

test('several workers that start at once on an empty database make its schema once', { skip }, async (t) => {
  const { url } = await openPostgres(t);
  const { sql } = await openPostgres(t, { url });
  await sql('DROP SCHEMA holdfast CASCADE');
  const all = await Promise.all([1, 2, 3].map(() => openPostgres(t, { url })));
  for (const [n, { historian }] of all.entries()) await historian.ingest(batchOf(rowsFrom(1, 2), `line-${n}`));
  assert.deepEqual(await sql('SELECT version FROM holdfast.schema_version'), [{ version: POSTGRES_MIGRATIONS.length }]);
});

test('a database of a newer program, or one that does not commit durably, is refused', { skip }, async (t) => {
  const { sql, url } = await openPostgres(t);
  await sql('UPDATE holdfast.schema_version SET version = 99');
  await assert.rejects(openPostgres(t, { url }), { code: 'historian.version' });
  await sql('UPDATE holdfast.schema_version SET version = $1', POSTGRES_MIGRATIONS.length);
  await sql(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET synchronous_commit = off`);
  await assert.rejects(openPostgres(t, { url }), { code: 'historian.io', message: /does not commit durably/ });
});

test('a commit that would not have been durable is not called one', { skip }, async (t) => {
  const { historian, sql, url } = await openPostgres(t, { connections: 1 });
  await sql(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET synchronous_commit = off`);
  // The sessions that are open keep their setting until they are opened anew.
  await sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast-ingest'");
  const refused = await until('a new session', () =>
    historian.ingest(batchOf(rowsFrom(1, 2))).then(
      () => undefined,
      (error: Error) => (/durably/.test(error.message) ? error : undefined),
    ),
  );
  assert.equal((refused as { code?: string }).code, 'historian.io');
});
