/** Chunks of this age get few late rows; those that come are stored in compressed chunks all the same. */
const COMPRESS_AFTER = '7 days';

/** What statistics are over: see postgres-migrations.ts. */
const VALUE = 'coalesce(number, whole::float8)';
const FINITE = `FILTER (WHERE quality >= 64 AND ${VALUE} > '-Infinity' AND ${VALUE} < 'Infinity')`;

/**
 * Rollups as continuous aggregates, the days over the hours. They hold finished hours and days only (`materialized_only`): a
 * real-time aggregate leaves out late readings below its watermark. The views `sensor_readings_1h` and `_1d` add from the
 * readings whatever is marked as not done, which is all that is newer or late, so they are exact at all times.
 *
 * A database that has had rollups of its own before marks their hours as not done; those from before the floor, which cannot
 * be made again, stay where they are.
 */
export const TIMESCALE_ROLLUPS: readonly string[] = [
  `ALTER TABLE holdfast.readings SET
     (timescaledb.compress, timescaledb.compress_segmentby = 'series_id', timescaledb.compress_orderby = 'device_ts')`,
  `SELECT add_compression_policy('holdfast.readings', INTERVAL '${COMPRESS_AFTER}', if_not_exists => true)`,
  `CREATE MATERIALIZED VIEW holdfast.readings_1h
   WITH (timescaledb.continuous, timescaledb.materialized_only = true) AS
   SELECT series_id, time_bucket('1 hour', device_ts) AS bucket, count(*) AS readings, count(*) ${FINITE} AS count,
     sum(${VALUE}) ${FINITE} AS sum, min(${VALUE}) ${FINITE} AS min, max(${VALUE}) ${FINITE} AS max,
     first(${VALUE}, device_ts) ${FINITE} AS first, last(${VALUE}, device_ts) ${FINITE} AS last
   FROM holdfast.readings GROUP BY 1, 2 WITH NO DATA`,
  `CREATE MATERIALIZED VIEW holdfast.readings_1d
   WITH (timescaledb.continuous, timescaledb.materialized_only = true) AS
   SELECT series_id, time_bucket('1 day', bucket) AS bucket, sum(readings) AS readings, sum(count) AS count,
     sum(sum) AS sum, min(min) AS min, max(max) AS max
   FROM holdfast.readings_1h GROUP BY 1, 2 WITH NO DATA`,
  `INSERT INTO holdfast.dirty (bucket, series_ids)
   SELECT bucket, array_agg(series_id) FROM holdfast.rollup_1h, holdfast.raw_floor
   WHERE bucket >= coalesce(to_timestamp(floor / 1000.0), '-infinity') GROUP BY bucket`,
  `DELETE FROM holdfast.rollup_1h USING holdfast.raw_floor
   WHERE bucket >= coalesce(to_timestamp(floor / 1000.0), '-infinity')`,
  `CREATE OR REPLACE VIEW holdfast.sensor_readings_1h AS
   SELECT bucket, asset_id AS device_id, metric_name AS metric_type, readings, count, sum / nullif(count, 0) AS avg,
     sum, min, max, first, last
   FROM (
     SELECT series_id, bucket, readings, count, sum, min, max, first, last FROM holdfast.rollup_1h
     UNION ALL
     SELECT series_id, bucket, readings, count, sum, min, max, first, last FROM holdfast.readings_1h AS r
     WHERE NOT EXISTS (SELECT FROM holdfast.dirty AS d WHERE d.bucket = r.bucket AND r.series_id = ANY (d.series_ids))
     UNION ALL
     SELECT series_id, bucket, h.* FROM (SELECT DISTINCT bucket, unnest(series_ids) AS series_id FROM holdfast.dirty) AS d,
       LATERAL holdfast.hour_of(series_id, bucket) AS h WHERE h.readings > 0
   ) AS hours JOIN holdfast.series ON series.id = series_id`,
  `CREATE VIEW holdfast.open_days AS
   SELECT day FROM holdfast.dirty_days
   UNION SELECT date_bin('1 day', bucket, timestamptz 'epoch') FROM holdfast.dirty
   UNION SELECT date_bin('1 day', bucket, timestamptz 'epoch') FROM holdfast.rollup_1h`,
  `CREATE OR REPLACE VIEW holdfast.sensor_readings_1d AS
   SELECT bucket, device_id, metric_type, readings, count, sum / nullif(count, 0) AS avg, sum, min, max FROM (
     SELECT bucket, asset_id AS device_id, metric_name AS metric_type, readings, count, sum, min, max
     FROM holdfast.readings_1d JOIN holdfast.series ON series.id = series_id
     WHERE NOT EXISTS (SELECT FROM holdfast.open_days WHERE day = bucket)
     UNION ALL
     SELECT day, h.* FROM holdfast.open_days, LATERAL (
       SELECT device_id, metric_type, sum(readings), sum(count), sum(sum), min(min), max(max)
       FROM holdfast.sensor_readings_1h WHERE bucket >= day AND bucket < day + interval '1 day' GROUP BY 1, 2
     ) AS h (device_id, metric_type, readings, count, sum, min, max)
   ) AS days`,
];
