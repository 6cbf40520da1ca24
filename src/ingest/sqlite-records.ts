import { resolve } from 'node:path';
import Database from 'better-sqlite3';
import { HoldfastError } from '../lib/errors.js';
import type { Millis } from '../model/ids.js';
import { TALLY_HOUR_MS, TALLY_MODULUS, TALLY_PRIME } from '../model/tally.js';
import type { LedgerEntry } from './historian.js';
import { SQLITE_KEPT } from './kept-queries.js';
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
import { ioError } from './sqlite-commit.js';
import { SqliteLedger } from './sqlite-ledger.js';
import { requireCurrent } from './sqlite-schema.js';

const BUSY_TIMEOUT_MS = 5000;

export class SqliteRecords implements Records {
  private readonly db: Database.Database;
  private readonly path: string;

  private constructor(db: Database.Database, path: string) {
    this.db = db;
    this.path = path;
  }

  /** Throws `historian.io` when there is no such file, and `historian.version`. */
  static open(path: string): SqliteRecords {
    let db: Database.Database | undefined;
    try {
      db = new Database(resolve(path), { readonly: true, fileMustExist: true, timeout: BUSY_TIMEOUT_MS });
      requireCurrent(db, path);
      return new SqliteRecords(db, path);
    } catch (error) {
      db?.close();
      throw error instanceof HoldfastError ? error : ioError(path, error, 'read');
    }
  }

  async tallied(hour: Millis, asset: string | undefined): Promise<TalliedHour[]> {
    const [{ floor }] = this.all<{ floor: number | null }>('SELECT floor FROM raw_floor') as [{ floor: number | null }];
    // Its readings have been removed on purpose: there is nothing left to compare.
    if (hour < (floor ?? -Infinity)) return [];
    const rows = this.all<Omit<TalliedHour, 'same'> & { same: number }>(TALLIED, { hour, asset: asset ?? null });
    return rows.map((row) => ({ ...row, same: row.same === 1 }));
  }

  async gaps({ from, to, asset }: Window): Promise<GapRecord[]> {
    const rows = this.all<Omit<GapRecord, 'resumed'> & { resumed: number }>(GAPS, { from, to, asset: asset ?? null });
    return rows.map((row) => ({ ...row, resumed: row.resumed === 1 }));
  }

  async silences(asset: string | undefined): Promise<Silence[]> {
    return this.all<Silence>(
      `SELECT asset_id AS asset, state, from_ts AS "from", to_ts AS "to", interval_ms AS intervalMs, gateway FROM silences
       WHERE @asset IS NULL OR asset_id = @asset ORDER BY from_ts, asset_id`,
      { asset: asset ?? null },
    );
  }

  async jumps(): Promise<Jump[]> {
    return this.all<Jump>(
      `SELECT gateway, epoch, first AS "from", last AS "to", noticed_at AS noticedAt
       FROM jumps JOIN sources ON sources.id = source_id ORDER BY source_id, first`,
    );
  }

  async lost(): Promise<LostRecord[]> {
    return this.all<LostRecord>(
      `SELECT gateway, epoch, first AS "from", last AS "to", reason
       FROM lost JOIN sources ON sources.id = source_id ORDER BY source_id, first`,
    );
  }

  async kept(kind: KeptKind, limit: number): Promise<Kept> {
    const { counts, rows } = SQLITE_KEPT[kind];
    return { counts: this.all(counts), rows: this.all<KeptRow>(rows, { limit }) };
  }

  async ledger(): Promise<readonly LedgerEntry[]> {
    return this.reading(() => this.db.transaction(() => new SqliteLedger(this.db).entries())());
  }

  async close(): Promise<void> {
    this.db.close();
  }

  private all<Row>(sql: string, parameters: Record<string, unknown> = {}): Row[] {
    return this.reading(() => this.db.prepare<unknown[], Row>(sql).all(parameters));
  }

  private reading<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      throw ioError(this.path, error, 'read');
    }
  }
}

const IN_HOUR = `device_ts >= @hour AND device_ts < @hour + ${TALLY_HOUR_MS}`;

const TALLIED = `
  WITH t AS (
    SELECT source_id, asset_id, metric_name, sum(count) AS expected, sum(checksum) % ${TALLY_MODULUS} AS checksum,
      min(first) AS first, max(last) AS last, max(up_to) AS up_to
    FROM tallies WHERE hour = @hour AND (@asset IS NULL OR asset_id = @asset) GROUP BY 1, 2, 3
  ), s AS (
    SELECT id, asset_id, metric_name FROM series WHERE @asset IS NULL OR asset_id = @asset
  ), r AS (
    SELECT source_id, asset_id, metric_name, seq, device_ts FROM s CROSS JOIN readings ON series_id = id AND ${IN_HOUR}
    UNION ALL
    SELECT source_id, asset_id, metric_name, seq, device_ts FROM s CROSS JOIN conflicts ON series_id = id AND ${IN_HOUR}
    UNION ALL
    SELECT source_id, asset_id, metric_name, seq, device_ts FROM s CROSS JOIN absorbed ON series_id = id AND ${IN_HOUR}
  ), here AS (
    SELECT * FROM r
    UNION ALL
    SELECT source_id, asset_id, metric_name, seq, ts FROM quarantine AS q
    WHERE ts >= @hour AND ts < @hour + ${TALLY_HOUR_MS} AND type NOT IN ('p', 'g') AND (@asset IS NULL OR asset_id = @asset)
      AND NOT EXISTS (SELECT 1 FROM r WHERE r.source_id = q.source_id AND r.seq = q.seq)
  ), f AS (
    SELECT source_id, asset_id, metric_name,
      count(*) FILTER (WHERE seq BETWEEN t.first AND t.up_to) AS found,
      sum((seq % ${TALLY_PRIME} + 1) * ((device_ts - @hour) % ${TALLY_PRIME} + 1))
        FILTER (WHERE seq BETWEEN t.first AND t.up_to) % ${TALLY_MODULUS} AS checksum,
      count(*) FILTER (WHERE t.first IS NULL OR seq NOT BETWEEN t.first AND t.up_to) AS uncounted
    FROM here LEFT JOIN t USING (source_id, asset_id, metric_name) GROUP BY 1, 2, 3
  )
  SELECT gateway, epoch, asset_id AS asset, metric_name AS metric, ifnull(expected, 0) AS expected, first, last,
    up_to AS upTo, ifnull(found, 0) AS found, t.checksum IS f.checksum AS same, ifnull(uncounted, 0) AS uncounted
  FROM t FULL JOIN f USING (source_id, asset_id, metric_name) JOIN sources ON sources.id = source_id
  ORDER BY asset_id, metric_name, source_id`;

const OF_GAP = `FROM series AS s CROSS JOIN readings ON series_id = s.id
  WHERE s.asset_id = g.asset_id AND (g.metric_name IS NULL OR s.metric_name = g.metric_name)`;

const GAPS = `
  SELECT gateway, epoch, seq, asset_id AS asset, metric_name AS metric, from_ts AS "from", to_ts AS "to", count, reason,
    detail, (SELECT count(*) ${OF_GAP} AND device_ts > from_ts AND device_ts < to_ts) AS found,
    EXISTS (SELECT 1 ${OF_GAP} AND device_ts >= to_ts) AS resumed
  FROM gaps AS g JOIN sources ON sources.id = source_id
  WHERE from_ts < @to AND to_ts >= @from AND (@asset IS NULL OR asset_id = @asset) ORDER BY from_ts, source_id, seq`;
