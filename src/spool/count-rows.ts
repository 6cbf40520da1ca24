/**
 * Counts rows that came into a new file without passing `insert`: totals, tallies and the names of the assets, in a few
 * statements for millions of rows.
 */
import type { Database } from 'better-sqlite3';
import { TALLY_HOUR_MS, TALLY_MODULUS, TALLY_PRIME } from '../model/tally.js';
import type { Row } from '../store/salvage.js';
import { isSound } from './checksum.js';
import { COLUMNS } from './copy-rows.js';
import { flagsOf } from './flags.js';
import type { InsertArgs } from './tables.js';

/** Grouped at a time: few enough to be sorted within the processor's cache, which takes half the time of many. */
const PIECE_ROWS = 5_000;
/** A series with no more rows than this in a piece may be one that damage has made up. */
const FEW_ROWS = 2;
const FIRST_READING = flagsOf({ qos: 0, retain: false, type: 'f' });
const SAFE = Number.MAX_SAFE_INTEGER;

type Group = [
  asset: string | null,
  metric: string | null,
  hour: number | null,
  rows: number,
  first: number,
  last: number,
  checksum: number | null,
];

/** The hour and the sum are those of `tallyTerm`; what is not a reading has no hour. */
const GROUPS = `
  SELECT asset_id, metric_name, device_ts - offset AS hour, count(*), min(seq), max(seq),
    sum((seq % ${TALLY_PRIME} + 1) * (offset % ${TALLY_PRIME} + 1)) % ${TALLY_MODULUS}
  FROM (
    SELECT seq, asset_id, metric_name, device_ts,
      CASE WHEN flags >= ${FIRST_READING} AND asset_id IS NOT NULL AND metric_name IS NOT NULL
          AND device_ts BETWEEN -${SAFE} AND ${SAFE}
        THEN (device_ts % ${TALLY_HOUR_MS} + ${TALLY_HOUR_MS}) % ${TALLY_HOUR_MS} END AS offset
    FROM spool WHERE seq > ? AND seq <= ?
  )
  GROUP BY 1, 2, 3`;

/**
 * The rows after `after` up to `tail`, which nobody has counted yet; in one transaction. Returns the assets that they name,
 * at most `assetsMax`.
 */
export function countRows(db: Database, after: number, tail: number, assetsMax: number): string[] {
  const groups = db.prepare<[number, number], Group>(GROUPS).raw();
  const rowOf = db.prepare(`SELECT ${COLUMNS}, checksum FROM spool WHERE seq = ?`).raw();
  const tally = db.prepare(
    `INSERT INTO tallies VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)
     ON CONFLICT DO UPDATE SET last = excluded.last, count = count + excluded.count,
       checksum = (checksum + excluded.checksum) % ${TALLY_MODULUS}, touched_at = excluded.touched_at`,
  );
  // Apart from the groups, or every payload would go through their sorting.
  const total = db.prepare(
    `UPDATE spool_state SET rows = rows + fresh.n, bytes = bytes + fresh.size, received = received + fresh.n,
       alive_at = ifnull((SELECT enqueued_at FROM spool WHERE seq = ?), alive_at)
     FROM (SELECT count(*) AS n, CAST(total(length(payload) + ifnull(length(props), 0)) AS INTEGER) AS size
           FROM spool WHERE seq > ? AND seq <= ?) AS fresh`,
  );
  const isSoundAt = (seq: number) => {
    const row = rowOf.get(seq) as Row;
    return isSound(row.slice(0, 8) as unknown as InsertArgs, row[8] as number | null);
  };
  const assets = new Set<string>();
  const count = () => {
    const now = Date.now();
    for (let from = after; from < tail; from += PIECE_ROWS) {
      for (const group of groups.all(from, Math.min(tail, from + PIECE_ROWS))) {
        const [asset, metric, hour, rows, first, last, checksum] = group;
        if (asset === null) continue;
        const isNew = !assets.has(asset) && assets.size < assetsMax;
        const isTrue = (isNew || rows <= FEW_ROWS) && (isSoundAt(first) || isSoundAt(last));
        if (isNew && isTrue) assets.add(asset);
        // Its rows will be set aside; nobody is to wait for a reading of a metric that does not exist.
        if (hour === null || (rows <= FEW_ROWS && !isTrue)) continue;
        tally.run(asset, metric, hour, first, last, rows, checksum, now);
      }
    }
    total.run(tail, after, tail);
    db.prepare('UPDATE tallies_state SET counted_up_to = ?').run(tail);
  };
  db.transaction(count)();
  return [...assets];
}
