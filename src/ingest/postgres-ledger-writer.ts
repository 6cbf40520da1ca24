import type { Millis } from '../model/ids.js';
import type { Outcome } from './historian.js';
import { runsOf, type SeqRange } from './ledger.js';
import type { PostgresClient } from './postgres-pool.js';
import { columnsOf } from './postgres-value.js';
import type { Sorted } from './postgres-writer.js';

/**
 * The last step of a batch: it locks the source's row until the commit, which keeps the ledger of a source exact. Every
 * seq up to `known` is known to have been passed before.
 */
export async function writeLedger(
  client: PostgresClient,
  sourceId: number,
  { batch, readings, now }: Sorted,
  outcome: Outcome,
  known: number,
): Promise<Record<string, unknown>> {
  if (batch.lost.length > 0)
    await client.query(
      `INSERT INTO holdfast.lost (source_id, first, last, reason)
       SELECT $1::int, first, last, reason FROM unnest($2::bigint[], $3::bigint[], $4::text[]) AS u(first, last, reason)
       ORDER BY 2, 3, 4 ON CONFLICT DO NOTHING`,
      [
        sourceId,
        ...columnsOf(
          batch.lost,
          ({ from }) => from,
          ({ to }) => to,
          ({ reason }) => reason,
        ),
      ],
    );
  const runs = runsOf(batch.rows);
  if (runs.length > 1 || (runs[0]?.from ?? 0) > known + 1) await noteJumps(client, sourceId, runs, now);
  const newest = readings.reduce((newest, { ts }) => Math.max(newest, ts), Number.NEGATIVE_INFINITY);
  const { stored, duplicates, conflicts, gaps, quarantined, opaque } = outcome;
  const { rows } = await client.query(LEDGER, [
    sourceId,
    runs.map(({ from }) => from),
    runs.map(({ to }) => to),
    now,
    Number.isFinite(newest) ? newest : null,
    batch.rows.length,
    stored,
    duplicates,
    conflicts,
    gaps,
    quarantined,
    opaque,
  ]);
  return rows[0];
}

/** Seqs that these runs jump over: ahead of everything that was received so far. */
async function noteJumps(
  client: PostgresClient,
  sourceId: number,
  runs: readonly SeqRange[],
  now: Millis,
): Promise<void> {
  const { rows } = await client.query(
    'SELECT coalesce(upper(received), 1)::bigint AS next FROM holdfast.sources WHERE id = $1 FOR UPDATE',
    [sourceId],
  );
  let { next } = rows[0] as { next: number };
  for (const { from, to } of runs) {
    if (from > next)
      await client.query('INSERT INTO holdfast.jumps VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING', [
        sourceId,
        next,
        from - 1,
        now,
      ]);
    next = Math.max(next, to + 1);
  }
}

const LEDGER = `
  UPDATE holdfast.sources SET
    received = received + coalesce(
      (SELECT range_agg(int8range(first, last, '[]')) FROM unnest($2::bigint[], $3::bigint[]) AS u(first, last)), '{}'),
    last_batch_at = greatest(last_batch_at, $4::bigint), newest_ts = greatest(newest_ts, $5::bigint),
    batches = batches + 1, rows = rows + $6, stored = stored + $7, duplicates = duplicates + $8,
    conflicts = conflicts + $9, gaps = gaps + $10, quarantined = quarantined + $11, opaque = opaque + $12
  WHERE id = $1
  RETURNING *, received::text AS received, current_setting('fsync') AS fsync,
    current_setting('synchronous_commit') AS commit`;
