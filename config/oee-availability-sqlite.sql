-- Availability per asset and hour for an OEE report, on the embedded historian (SQLite): the same figures as
-- oee-availability.sql gives on PostgreSQL, hours as milliseconds since 1970. An interval that was not read is unknown: it
-- must not count as a stop, and an hour without a single reading is NULL and not 0.
--
--   sqlite3 -readonly historian.db < oee-availability-sqlite.sql
--
-- Needs one metric per asset that is true (1) while the machine runs and is read at a steady pace.

WITH RECURSIVE settings(metric, since, until) AS (
  SELECT 'running', unixepoch() / 3600 * 3600000 - 24 * 3600000, unixepoch() / 3600 * 3600000
), hour_starts(hour) AS (
  SELECT since FROM settings
  UNION ALL
  SELECT hour + 3600000 FROM hour_starts, settings WHERE hour + 3600000 < until
), hours AS (
  SELECT asset_id, hour FROM series, settings, hour_starts WHERE metric_name = metric
), parts AS (
  -- Recorded gaps of the asset or of this metric, cut to the hour, without those whose readings came after all.
  SELECT h.asset_id, h.hour, max(from_ts, hour) AS lo, min(to_ts, hour + 3600000) AS hi
  FROM hours AS h, settings JOIN gaps AS g ON g.asset_id = h.asset_id AND from_ts < hour + 3600000 AND to_ts > hour
  WHERE coalesce(g.metric_name, metric) = metric
    AND NOT EXISTS (
      SELECT 1 FROM series AS s JOIN readings AS r ON r.series_id = s.id
      WHERE s.asset_id = g.asset_id AND s.metric_name = metric AND r.device_ts > from_ts AND r.device_ts < to_ts)
), beyond AS (
  -- Of each part only what no part before it has covered: gaps that overlap count once.
  SELECT asset_id, hour, max(0, hi - max(lo, coalesce(max(hi) OVER (
    PARTITION BY asset_id, hour ORDER BY lo, hi ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), lo))) AS ms
  FROM parts
), known AS (
  SELECT asset_id, hour,
    3600 - coalesce((SELECT sum(ms) FROM beyond AS b WHERE b.asset_id = h.asset_id AND b.hour = h.hour), 0) / 1000.0 AS known_s
  FROM hours AS h
)
SELECT k.hour, k.asset_id, known_s, 3600 - known_s AS unknown_s, avg * known_s AS running_s, avg AS availability
FROM known AS k CROSS JOIN settings
LEFT JOIN sensor_readings_1h AS r ON r.device_id = k.asset_id AND r.metric_type = metric AND r.bucket = k.hour
ORDER BY k.asset_id, k.hour;
