import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { holesOf, knownGaps } from '../../src/ingest/gaps.js';
import type { Historian } from '../../src/ingest/historian.js';
import { type HourResult, reconcile } from '../../src/ingest/reconcile.js';
import type { Records } from '../../src/ingest/records.js';
import type { Millis, Seq } from '../../src/model/ids.js';
import type { SpoolInput, SpoolRow } from '../../src/model/row.js';
import { batchOf } from './batches.js';
import { stoppedClock } from './historian.js';
import { gapRow, T0 } from './rows.js';
import { openSpool, reading } from './spool.js';
import { tallied } from './tallies.js';
import { tempDir } from './tmp.js';

const HOUR = 3_600_000;
const WINDOW = { from: (T0 - HOUR) as Millis, to: (T0 + 10 * HOUR) as Millis };
const FUTURE = T0 + 48 * HOUR;

export interface Backend {
  readonly skip: string | false;
  open(t: TestContext): Promise<Opened>;
}

export interface Opened {
  readonly historian: Historian;
  readonly records: Records;
  /** The same store under a clock that is two days ahead. */
  later(): Promise<Historian>;
  /** Deletes the reading of a seq, as somebody with a console might. */
  remove(seq: number): Promise<void>;
  /** Puts the reading of a seq under the identity of another. */
  renumber(from: number, to: number): Promise<void>;
}

/** The same promises for every backend; the tallies come from a real spool. */
export function reconcileCases(name: string, { skip, open }: Backend): void {
  test(`${name}: a store that has everything is complete, whatever the order and however often it came`, {
    skip,
  }, async (t) => {
    const { historian, records } = await open(t);
    const rows = await spooled(t, many(1, 600));
    for (const [from, to] of [
      [300, rows.length],
      [0, 200],
      [150, 350],
    ] as const)
      await historian.ingest(batchOf(rows.slice(from, to)));
    const results = await all(records);
    assert.ok(results.length >= 15);
    assert.deepEqual(new Set(results.map(({ verdict }) => verdict)), new Set(['complete']));
    assert.equal(
      results.reduce((sum, { expected }) => sum + expected, 0),
      450,
    );
    assert.deepEqual(new Set((await all(records, 'a1')).map(({ asset }) => asset)), new Set(['a1']));
  });

  test(`${name}: a batch that has not come yet is missing, with its seqs, until it comes`, { skip }, async (t) => {
    const { historian, records } = await open(t);
    const rows = await spooled(t, many(1, 600));
    await historian.ingest(batchOf(rows.slice(0, 100)));
    await historian.ingest(batchOf(rows.slice(150)));
    const results = await all(records);
    const findings = results.filter(({ verdict }) => verdict !== 'complete');
    assert.deepEqual(new Set(findings.map(({ verdict }) => verdict)), new Set(['missing']));
    const readings = many(101, 150).filter(({ type }) => type !== 'p').length;
    assert.equal(
      results.reduce((sum, { missing }) => sum + missing, 0),
      readings,
    );
    for (const { notArrived } of findings) assert.ok(notArrived.every(({ from, to }) => from >= 101 && to <= 150));
    await historian.ingest(batchOf(rows.slice(90, 160)));
    assert.deepEqual(new Set((await all(records)).map(({ verdict }) => verdict)), new Set(['complete']));
  });

  test(`${name}: a reading that is gone from the store, and one that nobody counted, are found`, {
    skip,
  }, async (t) => {
    const { historian, records, remove, renumber } = await open(t);
    await historian.ingest(batchOf(await spooled(t, many(1, 100))));
    await remove(1);
    const [gone] = await findings(records);
    assert.deepEqual(
      [gone?.asset, gone?.metric, gone?.verdict, gone?.missing, gone?.notArrived],
      ['a1', 'm1', 'missing', 1, []],
    );
    await historian.ingest(batchOf(await spooled(t, many(1, 1))));
    assert.deepEqual(await findings(records), []);
    // Row 3 is no reading: its seq counts towards nothing.
    await renumber(21, 3);
    assert.deepEqual(
      (await findings(records)).map(({ verdict }) => verdict),
      ['differs'],
    );
  });

  test(`${name}: what is kept aside is here, and so is what came later than its tally`, { skip }, async (t) => {
    const { historian, records, later } = await open(t);
    const same = reading(0, T0 + 1);
    const rows = await spooled(t, [
      same,
      same,
      { ...same, payload: Buffer.from(JSON.stringify({ ts: T0 + 1, value: 99 })) },
      reading(0, FUTURE),
      reading(0, FUTURE),
    ]);
    assert.deepEqual(await historian.ingest(batchOf(rows)), {
      stored: 1,
      duplicates: 1,
      conflicts: 1,
      gaps: 0,
      quarantined: 2,
      opaque: 1,
    });
    const check = async () => [
      ...(await all(records)).map(({ verdict, found }) => [verdict, found]),
      ...(await all(records, undefined, FUTURE)).map(({ verdict, found }) => [verdict, found]),
    ];
    assert.deepEqual(await check(), [
      ['complete', 3],
      ['complete', 2],
    ]);
    // The same batch again, once the future has come: a row is here twice and counts once.
    await (await later()).ingest(batchOf(rows));
    assert.deepEqual(await check(), [
      ['complete', 3],
      ['complete', 2],
    ]);
    const [last] = rows.slice(-1) as [SpoolRow];
    const more = { ...rows[0]!, seq: (last.seq + 1) as Seq, deviceTs: (T0 + 5) as Millis };
    await historian.ingest(batchOf([{ ...more, payload: Buffer.from(`{"ts":${T0 + 5},"value":5}`) }]));
    assert.deepEqual(
      (await all(records)).map(({ verdict, uncounted }) => [verdict, uncounted]),
      [['complete', 1]],
    );
  });

  test(`${name}: seqs behind the counts that have not arrived are told, those before them cannot matter`, {
    skip,
  }, async (t) => {
    const { historian, records } = await open(t);
    const rows = await spooled(t, many(1, 20));
    const last = (rows.at(-1) as SpoolRow).seq;
    const beyond = { ...rowOf(reading(0, T0 - HOUR)), seq: (last + 5) as Seq };
    await historian.ingest(batchOf([...rows.filter(({ seq }) => seq !== 5), beyond]));
    const results = (await all(records, 'a0')).filter(({ verdict }) => verdict === 'complete');
    assert.ok(results.length > 0);
    for (const { unknown } of results) assert.deepEqual(unknown, [{ from: last + 1, to: last + 4 }]);
  });

  test(`${name}: readings without any tally are not called complete`, { skip }, async (t) => {
    const { historian, records } = await open(t);
    const rows = await spooled(t, many(1, 10));
    await historian.ingest(batchOf(rows.slice(0, 10)));
    assert.deepEqual(new Set((await all(records)).map(({ verdict }) => verdict)), new Set(['uncounted']));
  });

  test(`${name}: what the gateway gave up on is missing, with its reason`, { skip }, async (t) => {
    const { historian, records } = await open(t);
    const rows = await spooled(t, many(1, 20));
    const lost = [{ from: 5 as Seq, to: 5 as Seq, reason: 'too-large' }];
    await historian.ingest(
      batchOf(
        rows.filter(({ seq }) => seq !== 5),
        'line-1',
        'e1',
        { lost },
      ),
    );
    assert.deepEqual(
      (await findings(records)).map(({ verdict, missing, givenUp, notArrived }) => [
        verdict,
        missing,
        givenUp,
        notArrived,
      ]),
      [['missing', 1, lost, []]],
    );
    assert.deepEqual(
      (await holesOf(records, stoppedClock.now())).map(({ state, from, to, reason }) => [state, from, to, reason]),
      [['lost', 5, 5, 'too-large']],
    );
  });

  test(`${name}: a hole is open, then late, then filled`, { skip }, async (t) => {
    const { historian, records } = await open(t);
    const rows = await spooled(t, many(1, 30));
    await historian.ingest(batchOf(rows.slice(0, 5)));
    await historian.ingest(batchOf([...rows.slice(10, 15), ...rows.slice(20)]));
    const now = stoppedClock.now();
    const states = async (at: number) =>
      (await holesOf(records, at as Millis)).map(({ state, from, to, noticedAt }) => [state, from, to, noticedAt]);
    assert.deepEqual(await states(now + 1000), [
      ['open', 6, 10, now],
      ['open', 16, 20, now],
    ]);
    assert.deepEqual(await states(now + HOUR), [
      ['late', 6, 10, now],
      ['late', 16, 20, now],
    ]);
    await historian.ingest(batchOf(rows.slice(5, 8)));
    await historian.ingest(batchOf(rows.slice(15, 20)));
    assert.deepEqual(await states(now + HOUR), [
      ['filled', 6, 8, now],
      ['late', 9, 10, now],
      ['filled', 16, 20, now],
    ]);
  });

  test(`${name}: a gap is open until the device is back, lost when it is, and filled when its readings came after all`, {
    skip,
  }, async (t) => {
    const { historian, records } = await open(t);
    const gap = (n: number, reason = 'device-unreachable', count?: number) =>
      gapRow(n, 'a0', 'm0', {
        from: (T0 + n * 1000) as Millis,
        to: (T0 + n * 1000 + 900) as Millis,
        reason,
        ...(count !== undefined && { count }),
      });
    const states = async () => (await knownGaps(records, WINDOW)).map(({ state, found }) => [state, found]);
    await historian.ingest(batchOf([gap(1), gap(2, 'spool-full', 2)]));
    assert.deepEqual(await states(), [
      ['open', 0],
      ['lost', 0],
    ]);
    const at = (seq: number, ts: number) => ({ ...rowOf(reading(0, ts)), seq: seq as Seq });
    await historian.ingest(batchOf([at(10, T0 + 2900), at(11, T0 + 2100)]));
    assert.deepEqual(await states(), [
      ['lost', 0],
      ['lost', 1],
    ]);
    await historian.ingest(batchOf([at(12, T0 + 1100), at(13, T0 + 2200)]));
    assert.deepEqual(await states(), [
      ['filled', 1],
      ['filled', 2],
    ]);
    assert.deepEqual(await knownGaps(records, { ...WINDOW, asset: 'a1' }), []);
  });
}

const many = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => tallied(from + n));

/** The rows of a real spool that got these messages, its tallies at the end. */
async function spooled(t: TestContext, inputs: readonly SpoolInput[]): Promise<SpoolRow[]> {
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue(inputs);
  await spool.tally(Date.now() as Millis, true);
  return spool.peek(0 as Seq, 1_000_000, 1 << 30);
}

function rowOf(input: SpoolInput): SpoolRow {
  return { ...input, seq: 1 as Seq, enqueuedAt: T0 as Millis };
}

async function all(records: Records, asset?: string, from: number = WINDOW.from): Promise<HourResult[]> {
  const results: HourResult[] = [];
  const window = { from: from as Millis, to: (from + 11 * HOUR) as Millis, asset };
  for await (const result of reconcile(records, window)) results.push(result);
  return results;
}

async function findings(records: Records): Promise<HourResult[]> {
  return (await all(records)).filter(({ verdict }) => verdict !== 'complete');
}
