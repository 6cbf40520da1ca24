import { SILENT_MS_MIN, SILENT_SAMPLES, SILENT_STEPS } from './records.js';

/**
 * Views for reports, the same on both stores: `silences`, the devices that have fallen silent, and `gaps_status`, those and
 * the recorded gaps, each with its state. Holes in a gateway's sequence are not in it: whose readings they are, and of what
 * time, is not known. They are part of a released schema version: change them by a new one.
 */

/** Reasons for which the readings existed and were given up. */
export const GIVEN_UP: readonly string[] = ['spool-full', 'spool-corrupt', 'expired', 'too-large'];

const GIVEN_UP_SQL = GIVEN_UP.map((reason) => `'${reason}'`).join(', ');
const STATE = `CASE WHEN found > 0 AND found >= coalesce(count, 1) THEN 'filled'
  WHEN resumed OR reason IN (${GIVEN_UP_SQL}) THEN 'lost' ELSE 'open' END`;
const OF_GAP = (schema: string) => `FROM ${schema}series AS s CROSS JOIN ${schema}readings AS r
  WHERE r.series_id = s.id AND s.asset_id = g.asset_id AND (g.metric_name IS NULL OR s.metric_name = g.metric_name)`;

const gapsStatus = (schema: string) => `
  CREATE VIEW ${schema}gaps_status AS
    SELECT 'gap' AS kind, ${STATE} AS state, asset_id, metric_name, from_ts, to_ts, reason, detail, count, found,
      gateway, epoch, seq
    FROM (
      SELECT g.*, (SELECT count(*) ${OF_GAP(schema)} AND device_ts > from_ts AND device_ts < to_ts) AS found,
        EXISTS (SELECT 1 ${OF_GAP(schema)} AND device_ts >= to_ts) AS resumed
      FROM ${schema}gaps AS g
    ) AS known JOIN ${schema}sources ON sources.id = source_id
    UNION ALL
    SELECT 'silent', state, asset_id, NULL, from_ts, to_ts, 'silent', NULL, expected, 0, gateway, NULL, NULL
    FROM ${schema}silences;`;

export const SQLITE_GAP_VIEWS = `
  CREATE VIEW silences AS
    WITH recent AS (
      SELECT s.id, asset_id, device_ts, source_id,
        device_ts - lag(device_ts) OVER (PARTITION BY s.id ORDER BY device_ts) AS step
      FROM series AS s CROSS JOIN readings ON series_id = s.id AND device_ts >=
        (SELECT device_ts FROM readings WHERE series_id = s.id ORDER BY device_ts DESC LIMIT 1 OFFSET ${SILENT_SAMPLES})
    ), steps AS (
      SELECT asset_id, step, row_number() OVER (PARTITION BY id ORDER BY step) AS n FROM recent WHERE step IS NOT NULL
    ), paces AS (
      SELECT asset_id, min(step) AS interval_ms FROM steps WHERE n = ${SILENT_SAMPLES / 2} GROUP BY asset_id
    ), newest AS (
      SELECT asset_id, max(device_ts) AS from_ts, source_id FROM recent GROUP BY asset_id
    ), known AS (
      SELECT asset_id, from_ts, interval_ms, gateway, unixepoch() * 1000 AS to_ts,
        (SELECT max(newest_ts) FROM sources AS s WHERE s.gateway = sources.gateway) AS gateway_ts
      FROM newest JOIN paces USING (asset_id) JOIN sources ON sources.id = source_id
    )
    SELECT asset_id, CASE WHEN gateway_ts > from_ts + ${SILENT_MS_MIN} THEN 'open' ELSE 'late' END AS state,
      from_ts, to_ts, interval_ms, (to_ts - from_ts) / interval_ms AS expected, gateway
    FROM known WHERE to_ts - from_ts > max(${SILENT_MS_MIN}, ${SILENT_STEPS} * interval_ms);
  ${gapsStatus('')}`;

export const POSTGRES_GAP_VIEWS = `
  CREATE VIEW holdfast.silences AS
    WITH paces AS (
      SELECT asset_id, min(step) AS step FROM holdfast.series AS s, LATERAL (
        SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY step) AS step, count(*) AS steps FROM (
          SELECT device_ts - lag(device_ts) OVER (ORDER BY device_ts) AS step FROM (
            SELECT device_ts FROM holdfast.readings WHERE series_id = s.id
            ORDER BY device_ts DESC LIMIT ${SILENT_SAMPLES + 1}) AS recent) AS all_steps
        WHERE step IS NOT NULL) AS pace
      WHERE steps = ${SILENT_SAMPLES} GROUP BY asset_id
    ), newest AS (
      SELECT DISTINCT ON (asset_id) asset_id, device_ts AS from_ts, source_id FROM holdfast.series AS s, LATERAL (
        SELECT device_ts, source_id FROM holdfast.readings WHERE series_id = s.id ORDER BY device_ts DESC LIMIT 1) AS last
      ORDER BY asset_id, device_ts DESC
    ), known AS (
      SELECT asset_id, from_ts, step, gateway, now() AS to_ts,
        (SELECT max(newest_ts) FROM holdfast.sources AS s WHERE s.gateway = sources.gateway) AS gateway_ts
      FROM newest JOIN paces USING (asset_id) JOIN holdfast.sources ON sources.id = source_id
    )
    SELECT asset_id,
      CASE WHEN to_timestamp(gateway_ts / 1000.0) > from_ts + ${SILENT_MS_MIN} * interval '1 millisecond'
        THEN 'open' ELSE 'late' END AS state,
      from_ts, to_ts, (extract(epoch FROM step) * 1000)::bigint AS interval_ms,
      floor(extract(epoch FROM to_ts - from_ts) / extract(epoch FROM step))::bigint AS expected, gateway
    FROM known
    WHERE to_ts - from_ts > greatest(${SILENT_MS_MIN} * interval '1 millisecond', ${SILENT_STEPS} * step);
  ${gapsStatus('holdfast.')}`;
