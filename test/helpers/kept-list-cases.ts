import assert from 'node:assert/strict';
import type { Historian } from '../../src/ingest/historian.js';
import type { Kept, KeptKind } from '../../src/ingest/records.js';
import { batchOf } from './batches.js';
import { stoppedClock } from './historian.js';
import { reading, readingRow, T0 } from './rows.js';

/** What is kept aside is listed with its reason, newest first, and counted in full beyond the limit. */
export async function keptIsListed(historian: Historian, list: (kind: KeptKind, limit: number) => Promise<Kept>) {
  const future = (stoppedClock.now() + 3_600_000) as never;
  assert.deepEqual(await list('quarantine', 9), { counts: [], rows: [] });
  await historian.ingest(
    batchOf([
      readingRow(1, reading('f', 1.5)),
      readingRow(2, reading('f', 2.5)),
      readingRow(3, reading('s', 'later', { ts: future })),
      readingRow(4, reading('x', Uint8Array.of(1, 171), { ts: future, metric: 'raw' })),
    ]),
  );
  await historian.bury({
    topic: 'edge/a/batch',
    bytes: Uint8Array.of(1, 2, 3),
    code: 'wire.malformed',
    reason: 'noise',
  });

  const aside = await list('quarantine', 1);
  assert.deepEqual(aside.counts, [{ reason: 'future', count: 2 }]);
  const from = { gateway: 'line-1', epoch: 'e1', asset: 'press01', quality: 192, receivedAt: stoppedClock.now() };
  const last = { ...from, seq: 4, reason: 'future', metric: 'raw', ts: future, value: '01AB', kept: null };
  assert.deepEqual(aside.rows, [last]);
  const conflict = { ...from, seq: 2, reason: 'value', metric: 'temperature', ts: T0, value: '2.5', kept: '1.5' };
  assert.deepEqual(await list('conflicts', 9), { counts: [{ reason: 'value', count: 1 }], rows: [conflict] });
  const dead = { id: 1, topic: 'edge/a/batch', reason: 'wire.malformed', detail: 'noise', bytes: 3 };
  assert.deepEqual(await list('dead', 9), {
    counts: [{ reason: 'wire.malformed', count: 1 }],
    rows: [{ ...dead, receivedAt: stoppedClock.now() }],
  });
}
