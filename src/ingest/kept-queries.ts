import type { KeptKind } from './records.js';

/** Queries of `Records.kept`. Conflicts have one reason, that the value differs. */
type Queries = Readonly<Record<KeptKind, { readonly counts: string; readonly rows: string }>>;

const TEXT_MAX = 200;

const counts = (table: string, reason: string) =>
  `SELECT ${reason} AS reason, count(*) AS count FROM ${table} GROUP BY 1 ORDER BY 2 DESC, 1`;

const sqliteText = (of: string) =>
  `substr(CASE typeof(${of}.value) WHEN 'blob' THEN hex(${of}.value) ELSE CAST(${of}.value AS TEXT) END, 1, ${TEXT_MAX})`;

export const SQLITE_KEPT: Queries = {
  quarantine: {
    counts: counts('quarantine', 'reason'),
    rows: `SELECT gateway, epoch, seq, reason, asset_id AS asset, metric_name AS metric, ts, ${sqliteText('q')} AS value,
        quality, NULL AS kept, received_at AS receivedAt
      FROM quarantine AS q JOIN sources ON sources.id = source_id ORDER BY q.id DESC LIMIT @limit`,
  },
  conflicts: {
    counts: counts('conflicts', "'value'"),
    rows: `SELECT gateway, epoch, c.seq, 'value' AS reason, asset_id AS asset, metric_name AS metric, c.device_ts AS ts,
        ${sqliteText('c')} AS value, c.quality, ${sqliteText('r')} AS kept, received_at AS receivedAt
      FROM conflicts AS c JOIN sources ON sources.id = c.source_id JOIN series ON series.id = c.series_id
      LEFT JOIN readings AS r ON r.series_id = c.series_id AND r.device_ts = c.device_ts
      ORDER BY received_at DESC, c.series_id, c.device_ts, c.seq LIMIT @limit`,
  },
  dead: {
    counts: counts('dead_batches', 'code'),
    rows: `SELECT id, topic, code AS reason, reason AS detail, length(bytes) AS bytes, received_at AS receivedAt
      FROM dead_batches ORDER BY id DESC LIMIT @limit`,
  },
};

const postgresText = (of: string) => `left(coalesce(${of}.number::text, ${of}.whole::text, ${of}.text,
  upper(encode(${of}.bytes, 'hex'))), ${TEXT_MAX})`;
const ms = (time: string) => `(extract(epoch FROM ${time}) * 1000)::bigint`;

export const POSTGRES_KEPT: Queries = {
  quarantine: {
    counts: counts('holdfast.quarantine', 'reason'),
    rows: `SELECT gateway, epoch, seq, reason, asset_id AS asset, metric_name AS metric, ts, ${postgresText('q')} AS value,
        quality, NULL AS kept, ${ms('received_at')} AS "receivedAt"
      FROM holdfast.quarantine AS q JOIN holdfast.sources ON sources.id = source_id ORDER BY q.id DESC LIMIT $1`,
  },
  conflicts: {
    counts: counts('holdfast.conflicts', "'value'"),
    rows: `SELECT gateway, epoch, c.seq, 'value' AS reason, asset_id AS asset, metric_name AS metric,
        ${ms('c.device_ts')} AS ts, ${postgresText('c')} AS value, c.quality, ${postgresText('r')} AS kept,
        ${ms('received_at')} AS "receivedAt"
      FROM holdfast.conflicts AS c JOIN holdfast.sources ON sources.id = c.source_id
      JOIN holdfast.series ON series.id = c.series_id
      LEFT JOIN holdfast.readings AS r ON r.series_id = c.series_id AND r.device_ts = c.device_ts
      ORDER BY received_at DESC, c.series_id, c.device_ts, c.seq LIMIT $1`,
  },
  dead: {
    counts: counts('holdfast.dead_batches', 'code'),
    rows: `SELECT id, topic, code AS reason, reason AS detail, length(bytes) AS bytes, ${ms('received_at')} AS "receivedAt"
      FROM holdfast.dead_batches ORDER BY id DESC LIMIT $1`,
  },
};
