-- Availability per asset and hour for an OEE report, on a historian in PostgreSQL: the share of the time in which a machine
-- ran, of the time that is known. An interval that was not read is unknown: it must not count as a stop, and an hour without
-- a single reading is NULL and not 0. Seconds that are unknown stand beside each figure, so that a reader can judge it.
--
-- An hour that is known to the full and yet has no figure is explained by no gap: ask holdfast gaps and holdfast reconcile.
--
-- Needs one metric per asset that is true (1) while the machine runs and is read at a steady pace.

WITH settings AS (
  SELECT 'running' AS metric,
         date_trunc('hour', now()) - interval '24 hours' AS since,
         date_trunc('hour', now()) AS until
), assets AS (
  SELECT asset_id FROM holdfast.series, settings WHERE metric_name = metric
), hours AS (
  SELECT asset_id, hour, tstzrange(hour, hour + interval '1 hour') AS span
  FROM assets, settings, generate_series(since, until - interval '1 hour', interval '1 hour') AS hour
), gaps AS (
  -- Recorded gaps of the asset or of this metric, without those whose readings came after all.
  SELECT g.asset_id, tstzrange(from_ts, to_ts) AS span
  FROM holdfast.gaps AS g, settings
  WHERE coalesce(g.metric_name, metric) = metric AND from_ts < until AND to_ts > since
    AND NOT EXISTS (
      SELECT FROM holdfast.series AS s JOIN holdfast.readings AS r ON r.series_id = s.id
      WHERE s.asset_id = g.asset_id AND s.metric_name = metric AND r.device_ts > from_ts AND r.device_ts < to_ts)
), known AS (
  -- Gaps that overlap count once.
  SELECT h.asset_id, h.hour, 3600 - coalesce((
    SELECT sum(extract(epoch FROM upper(part) - lower(part)))
    FROM unnest((SELECT range_agg(g.span * h.span) FROM gaps AS g WHERE g.asset_id = h.asset_id AND g.span && h.span)) AS part
  ), 0)::float8 AS known_s
  FROM hours AS h
)
SELECT hour, asset_id,
       known_s, 3600 - known_s AS unknown_s,
       r.avg * known_s AS running_s,
       r.avg AS availability
FROM known AS k, settings,
     LATERAL (SELECT (SELECT avg FROM holdfast.sensor_readings_1h
                      WHERE device_id = asset_id AND metric_type = metric AND bucket = hour) AS avg) AS r
ORDER BY asset_id, hour;
