/** A day of readings, each counted in a tally, written by the database itself. */
import Database from 'better-sqlite3';
import { TALLY_MODULUS, TALLY_PRIME } from '../../src/model/tally.js';

/** Start of a UTC day. */
export const DAY_START = 1_790_035_200_000;
const SECONDS = 86_400;
/** One reading a second of each: ten million a day. */
const SERIES = 116;
const ROWS = SERIES * SECONDS;

const HOUR = `${DAY_START} + (n / 3600) * 3600000`;
const TERM = `(seq % ${TALLY_PRIME} + 1) * ((n % 3600) * 1000 % ${TALLY_PRIME} + 1)`;
/** The tallies of the readings in `all_rows(s, n, seq)`: series and second. */
const TALLIES = `SELECT ${HOUR}, 'press-' || (s / 10), 'tag_' || (s % 10), 1, min(seq), max(seq), count(*),
  CAST(sum(${TERM}) % ${TALLY_MODULUS} AS bigint), ${ROWS} FROM all_rows GROUP BY 1, 2, 3`;

/** The number of readings. */
export function fillSqlite(path: string): number {
  const db = new Database(path);
  db.pragma('synchronous = OFF');
  db.exec(`
    BEGIN;
    INSERT INTO sources (id, gateway, epoch, last_batch_at, newest_ts) VALUES (1, 'line-1', 'e1', ${DAY_START}, ${DAY_START});
    INSERT INTO ledger VALUES (1, 1, ${ROWS});
    CREATE TEMP TABLE seconds AS WITH RECURSIVE t(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM t WHERE n < ${SECONDS - 1}) SELECT n FROM t;
    CREATE TEMP TABLE tags AS WITH RECURSIVE t(s) AS (SELECT 0 UNION ALL SELECT s + 1 FROM t WHERE s < ${SERIES - 1}) SELECT s FROM t;
    CREATE TEMP VIEW all_rows AS SELECT s, n, n * ${SERIES} + s + 1 AS seq FROM tags CROSS JOIN seconds;
    INSERT INTO series (id, asset_id, metric_name, type, topic)
      SELECT s + 1, 'press-' || (s / 10), 'tag_' || (s % 10), 'f', 'plant/press-' || (s / 10) || '/tag_' || (s % 10) FROM tags;
    INSERT INTO readings SELECT s + 1, ${DAY_START} + n * 1000, 'f', n * 0.5, 192, 1, seq FROM all_rows;
    INSERT INTO tallies ${TALLIES};
    COMMIT`);
  db.close();
  return ROWS;
}

/** The number of readings. */
export async function fillPostgres(sql: (text: string) => Promise<unknown>): Promise<number> {
  await sql(`INSERT INTO holdfast.sources (gateway, epoch, received, last_batch_at, newest_ts)
    VALUES ('line-1', 'e1', int8multirange(int8range(1, ${ROWS}, '[]')), ${DAY_START}, ${DAY_START})`);
  await sql(`INSERT INTO holdfast.series (asset_id, metric_name, topic)
    SELECT 'press-' || (s / 10), 'tag_' || (s % 10), 'plant' FROM generate_series(0, ${SERIES - 1}) AS s`);
  await sql(`INSERT INTO holdfast.readings (series_id, device_ts, type, number, quality, source_id, seq)
    SELECT s + 1, timestamptz 'epoch' + (${DAY_START} + n * 1000) * interval '1 millisecond', 'f', n * 0.5, 192, 1,
      n * ${SERIES}::bigint + s + 1
    FROM generate_series(0, ${SERIES - 1}) AS s, generate_series(0, ${SECONDS - 1}) AS n`);
  await sql(`INSERT INTO holdfast.tallies (hour, asset_id, metric_name, source_id, first, last, count, checksum, up_to)
    WITH all_rows AS (SELECT s::bigint, n::bigint, n * ${SERIES}::bigint + s + 1 AS seq
      FROM generate_series(0, ${SERIES - 1}) AS s, generate_series(0, ${SECONDS - 1}) AS n) ${TALLIES}`);
  await sql('ANALYZE');
  return ROWS;
}
