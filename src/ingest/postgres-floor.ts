import type { Millis } from '../model/ids.js';
import type { PostgresClient } from './postgres-pool.js';
import { EXPIRE_MS_MAX, type Expired, hourOf } from './rollups.js';

/** Batches hold it together, the removal of old readings alone: no reading is stored below a floor that moves. */
const FLOOR_LOCK = 4_839_201_739;
const DAY_MS = 86_400_000;

/**
 * The floor below which readings may not be stored, held where it is until the transaction ends. Two statements in one
 * message, because a statement that waits for the lock would see the floor from before it.
 */
export async function shareFloor(client: PostgresClient): Promise<number> {
  const answers = (await client.query(
    `SELECT pg_advisory_xact_lock_shared(${FLOOR_LOCK}); SELECT floor FROM holdfast.raw_floor`,
  )) as unknown as { rows: { floor: number | null }[] }[];
  return answers[1]?.rows[0]?.floor ?? Number.NEGATIVE_INFINITY;
}

/** See `Rollups.expire`; inside a transaction that holds the lock of the rollups. `chunked`: whole days go as chunks. */
export async function expireRaw(
  client: PostgresClient,
  now: Millis,
  rawHorizonMs: number,
  chunked: boolean,
): Promise<Expired | undefined> {
  await client.query('SELECT pg_advisory_xact_lock($1)', [FLOOR_LOCK]);
  const { rows } = await client.query<{ floor: number | null; marked: number | null; oldest: number | null }>(
    `SELECT floor, (SELECT (extract(epoch FROM min(bucket)) * 1000)::bigint FROM holdfast.dirty) AS marked,
       (SELECT (extract(epoch FROM min((SELECT min(device_ts) FROM holdfast.readings WHERE series_id = series.id))) * 1000)::bigint
        FROM holdfast.series) AS oldest
     FROM holdfast.raw_floor`,
  );
  const { floor, marked, oldest } = rows[0]!;
  const target = Math.min(hourOf(now - rawHorizonMs), marked ?? Number.POSITIVE_INFINITY);
  const next = chunked
    ? Math.floor(target / DAY_MS) * DAY_MS
    : Math.min(target, oldest === null ? target : hourOf(oldest) + EXPIRE_MS_MAX);
  if (next <= (floor ?? Number.NEGATIVE_INFINITY)) return undefined;
  const at = `to_timestamp(${next} / 1000.0)`;
  const removed = chunked ? await dropChunks(client, at) : await deleteRows(client, at);
  await client.query(
    `DELETE FROM holdfast.absorbed USING holdfast.series WHERE series_id = series.id AND device_ts < ${at}`,
  );
  await client.query('DELETE FROM holdfast.tallies WHERE hour < $1', [next]);
  await client.query('UPDATE holdfast.raw_floor SET floor = $1, removed = removed + $2', [next, removed]);
  return { readings: removed, floor: next as Millis };
}

async function deleteRows(client: PostgresClient, at: string): Promise<number> {
  const { rowCount } = await client.query(
    `DELETE FROM holdfast.readings USING holdfast.series WHERE series_id = series.id AND device_ts < ${at}`,
  );
  return rowCount ?? 0;
}

/** Readings of a chunk that reaches beyond `at` stay until it does not. */
async function dropChunks(client: PostgresClient, at: string): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    `SELECT count(*) AS count FROM holdfast.readings WHERE device_ts < ${at}`,
  );
  await client.query(`SELECT drop_chunks('holdfast.readings', older_than => ${at})`);
  return rows[0]?.count ?? 0;
}
