import type { Millis } from '../model/ids.js';
import { TALLY_MODULUS, TALLY_PRIME } from '../model/tally.js';
import type { LedgerEntry } from './historian.js';
import { POSTGRES_KEPT } from './kept-queries.js';
import { PostgresLedger } from './postgres-ledger.js';
import { type PostgresConnection, PostgresPool } from './postgres-pool.js';
import { requireCurrent } from './postgres-schema.js';
import type {
  GapRecord,
  Jump,
  Kept,
  KeptKind,
  KeptRow,
  LostRecord,
  Records,
  Silence,
  TalliedHour,
  Window,
} from './records.js';

export class PostgresRecords implements Records {
  private readonly pool: PostgresPool;

  private constructor(pool: PostgresPool) {
    this.pool = pool;
  }

  /** Throws `historian.io` and `historian.version`. */
  static async open({ url, tls }: PostgresConnection): Promise<PostgresRecords> {
    const pool = new PostgresPool({ url, tls, connections: 1, applicationName: 'holdfast-report' });
    try {
      await requireCurrent(pool);
      return new PostgresRecords(pool);
    } catch (error) {
      await pool.close();
      throw error;
    }
  }

  async tallied(hour: Millis, asset: string | undefined): Promise<TalliedHour[]> {
    const [raw] = await this.pool.query<{ floor: number | null }>('SELECT floor FROM holdfast.raw_floor');
    // Its readings have been removed on purpose: there is nothing left to compare.
    if (hour < (raw?.floor ?? Number.NEGATIVE_INFINITY)) return [];
    return this.pool.query<TalliedHour>(TALLIED, [hour, asset ?? null]);
  }

  gaps({ from, to, asset }: Window): Promise<GapRecord[]> {
    return this.pool.query<GapRecord>(GAPS, [from, to, asset ?? null]);
  }

  silences(asset: string | undefined): Promise<Silence[]> {
    return this.pool.query<Silence & Record<string, unknown>>(
      `SELECT asset_id AS asset, state, ${MS('from_ts')} AS "from", ${MS('to_ts')} AS "to",
         interval_ms AS "intervalMs", gateway
       FROM holdfast.silences WHERE $1::text IS NULL OR asset_id = $1 ORDER BY from_ts, asset_id`,
      [asset ?? null],
    );
  }

  jumps(): Promise<Jump[]> {
    return this.pool.query<Jump>(
      `SELECT gateway, epoch, first AS "from", last AS "to", noticed_at AS "noticedAt"
       FROM holdfast.jumps JOIN holdfast.sources ON sources.id = source_id ORDER BY source_id, first`,
    );
  }

  lost(): Promise<LostRecord[]> {
    return this.pool.query<LostRecord>(
      `SELECT gateway, epoch, first AS "from", last AS "to", reason
       FROM holdfast.lost JOIN holdfast.sources ON sources.id = source_id ORDER BY source_id, first`,
    );
  }

  async kept(kind: KeptKind, limit: number): Promise<Kept> {
    const { counts, rows } = POSTGRES_KEPT[kind];
    return {
      counts: await this.pool.query<{ reason: string; count: number }>(counts),
      rows: await this.pool.query<KeptRow & Record<string, unknown>>(rows, [limit]),
    };
  }

  async ledger(): Promise<readonly LedgerEntry[]> {
    const ledger = new PostgresLedger(this.pool);
    await ledger.look();
    return ledger.entries();
  }

  close(): Promise<void> {
    return this.pool.close();
  }
}

const LO = "timestamptz 'epoch' + $1::bigint * interval '1 millisecond'";
const IN_HOUR = `device_ts >= ${LO} AND device_ts < ${LO} + interval '1 hour'`;
const HERE = (table: string) =>
  `SELECT source_id, asset_id, metric_name, seq, (extract(epoch FROM device_ts) * 1000)::bigint - $1 AS offset_ms
   FROM s JOIN holdfast.${table} ON series_id = id AND ${IN_HOUR}`;

const TALLIED = `
  WITH t AS (
    SELECT source_id, asset_id, metric_name, sum(count)::bigint AS expected,
      (sum(checksum) % ${TALLY_MODULUS})::bigint AS checksum, min(first) AS first, max(last) AS last, max(up_to) AS up_to
    FROM holdfast.tallies WHERE hour = $1 AND ($2::text IS NULL OR asset_id = $2) GROUP BY 1, 2, 3
  ), s AS (
    SELECT id, asset_id, metric_name FROM holdfast.series WHERE $2::text IS NULL OR asset_id = $2
  ), r AS (
    ${HERE('readings')} UNION ALL ${HERE('conflicts')} UNION ALL ${HERE('absorbed')}
  ), here AS (
    SELECT * FROM r
    UNION ALL
    SELECT source_id, asset_id, metric_name, seq, ts - $1 FROM holdfast.quarantine AS q
    WHERE ts >= $1 AND ts < $1 + 3600000 AND type NOT IN ('p', 'g') AND ($2::text IS NULL OR asset_id = $2)
      AND NOT EXISTS (SELECT FROM r WHERE r.source_id = q.source_id AND r.seq = q.seq)
  ), f AS (
    SELECT source_id, asset_id, metric_name,
      count(*) FILTER (WHERE seq BETWEEN t.first AND t.up_to) AS found,
      (sum((seq % ${TALLY_PRIME} + 1) * (offset_ms % ${TALLY_PRIME} + 1))
        FILTER (WHERE seq BETWEEN t.first AND t.up_to) % ${TALLY_MODULUS})::bigint AS checksum,
      count(*) FILTER (WHERE t.first IS NULL OR seq NOT BETWEEN t.first AND t.up_to) AS uncounted
    FROM here LEFT JOIN t USING (source_id, asset_id, metric_name) GROUP BY 1, 2, 3
  )
  SELECT gateway, epoch, asset_id AS asset, metric_name AS metric, coalesce(expected, 0) AS expected, first, last,
    up_to AS "upTo", coalesce(found, 0) AS found, t.checksum IS NOT DISTINCT FROM f.checksum AS same,
    coalesce(uncounted, 0) AS uncounted
  FROM t FULL JOIN f USING (source_id, asset_id, metric_name) JOIN holdfast.sources ON sources.id = source_id
  ORDER BY asset_id, metric_name, source_id`;

const MS = (time: string) => `(extract(epoch FROM ${time}) * 1000)::bigint`;
const OF_GAP = `FROM holdfast.series AS s JOIN holdfast.readings ON series_id = s.id
  WHERE s.asset_id = g.asset_id AND (g.metric_name IS NULL OR s.metric_name = g.metric_name)`;

const GAPS = `
  SELECT gateway, epoch, seq, asset_id AS asset, metric_name AS metric, ${MS('from_ts')} AS "from", ${MS('to_ts')} AS "to",
    count, reason, detail, (SELECT count(*) ${OF_GAP} AND device_ts > from_ts AND device_ts < to_ts) AS found,
    EXISTS (SELECT ${OF_GAP} AND device_ts >= to_ts) AS resumed
  FROM holdfast.gaps AS g JOIN holdfast.sources ON sources.id = source_id
  WHERE from_ts < to_timestamp($2::bigint / 1000.0) AND to_ts >= to_timestamp($1::bigint / 1000.0)
    AND ($3::text IS NULL OR asset_id = $3)
  ORDER BY from_ts, source_id, seq`;
