import { POSTGRES_GAP_VIEWS } from './gap-views.js';

/**
 * One entry per schema version; `holdfast.schema_version` has the number of those applied. Never change an entry that has
 * been released.
 *
 * A value stands in the column of its kind: `number` for floats, `whole` for integers up to 2⁶⁴−1 and booleans as 0 and 1,
 * `text` for text and JSON, `bytes` for bytes. Text that holds a NUL, which PostgreSQL's `text` cannot, is in `bytes` as
 * UTF-8, its type still `s`. Device times are exact to the millisecond.
 *
 * `sensor_readings_1h` and `_1d` (UTC) are exact at all times: hours that have a dirty marker are computed from the readings.
 * Their statistics are over the finite numbers that are not of bad quality; `readings` counts all.
 */
export const POSTGRES_MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE holdfast.sources (
    id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, gateway text NOT NULL, epoch text NOT NULL,
    received int8multirange NOT NULL DEFAULT '{}', last_batch_at bigint NOT NULL DEFAULT 0, newest_ts bigint,
    batches bigint NOT NULL DEFAULT 0, rows bigint NOT NULL DEFAULT 0, stored bigint NOT NULL DEFAULT 0,
    duplicates bigint NOT NULL DEFAULT 0, conflicts bigint NOT NULL DEFAULT 0, gaps bigint NOT NULL DEFAULT 0,
    quarantined bigint NOT NULL DEFAULT 0, opaque bigint NOT NULL DEFAULT 0,
    UNIQUE (gateway, epoch)
  ) WITH (fillfactor = 50);
  CREATE TABLE holdfast.lost (
    source_id int NOT NULL, first bigint NOT NULL, last bigint NOT NULL, reason text NOT NULL,
    PRIMARY KEY (source_id, first, last, reason)
  );
  CREATE TABLE holdfast.series (
    id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, asset_id text NOT NULL, metric_name text NOT NULL,
    topic text NOT NULL, UNIQUE (asset_id, metric_name)
  );
  CREATE TABLE holdfast.readings (
    series_id int NOT NULL, device_ts timestamptz NOT NULL, type "char" NOT NULL,
    number float8, whole numeric, text text, bytes bytea,
    quality smallint NOT NULL, source_id int NOT NULL, seq bigint NOT NULL,
    PRIMARY KEY (series_id, device_ts)
  );
  CREATE TABLE holdfast.conflicts (
    series_id int NOT NULL, device_ts timestamptz NOT NULL, source_id int NOT NULL, seq bigint NOT NULL,
    type "char" NOT NULL, number float8, whole numeric, text text, bytes bytea, quality smallint NOT NULL,
    received_at timestamptz NOT NULL,
    PRIMARY KEY (series_id, device_ts, source_id, seq)
  );
  CREATE TABLE holdfast.absorbed (
    series_id int NOT NULL, device_ts timestamptz NOT NULL, source_id int NOT NULL, seq bigint NOT NULL,
    PRIMARY KEY (series_id, device_ts, source_id, seq)
  );
  CREATE TABLE holdfast.gaps (
    source_id int NOT NULL, seq bigint NOT NULL, asset_id text NOT NULL, metric_name text,
    from_ts timestamptz NOT NULL, to_ts timestamptz NOT NULL, count bigint, reason text NOT NULL, detail text,
    received_at timestamptz NOT NULL,
    PRIMARY KEY (source_id, seq)
  );
  CREATE INDEX gaps_of_asset ON holdfast.gaps (asset_id, from_ts);
  CREATE TABLE holdfast.opaque (
    source_id int NOT NULL, seq bigint NOT NULL, topic text NOT NULL, ts bigint NOT NULL, retain boolean NOT NULL,
    payload bytea NOT NULL, received_at timestamptz NOT NULL,
    PRIMARY KEY (source_id, seq)
  );
  CREATE TABLE holdfast.quarantine (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, source_id int NOT NULL, seq bigint NOT NULL,
    reason text NOT NULL, topic text NOT NULL, asset_id text, metric_name text, ts bigint NOT NULL, type "char" NOT NULL,
    number float8, whole numeric, text text, bytes bytea, quality smallint NOT NULL, received_at timestamptz NOT NULL,
    UNIQUE (source_id, seq, reason, topic, ts)
  );
  CREATE TABLE holdfast.dead_batches (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, topic text NOT NULL, sha256 bytea NOT NULL, code text NOT NULL,
    reason text NOT NULL, bytes bytea NOT NULL, received_at timestamptz NOT NULL,
    UNIQUE (sha256, topic)
  );
  CREATE TABLE holdfast.tallies (
    hour bigint NOT NULL, asset_id text NOT NULL, metric_name text NOT NULL, source_id int NOT NULL,
    first bigint NOT NULL, last bigint NOT NULL, count bigint NOT NULL, checksum bigint NOT NULL, up_to bigint NOT NULL,
    PRIMARY KEY (hour, asset_id, metric_name, source_id, first)
  );
  CREATE TABLE holdfast.jumps (
    source_id int NOT NULL, first bigint NOT NULL, last bigint NOT NULL, noticed_at bigint NOT NULL,
    PRIMARY KEY (source_id, first)
  );
  CREATE TABLE holdfast.rollup_1h (
    series_id int NOT NULL, bucket timestamptz NOT NULL, readings bigint NOT NULL, count bigint NOT NULL,
    sum float8, min float8, max float8, first float8, last float8,
    PRIMARY KEY (series_id, bucket)
  );
  CREATE TABLE holdfast.dirty (
    bucket timestamptz NOT NULL, id bigint GENERATED ALWAYS AS IDENTITY, series_ids int[] NOT NULL,
    PRIMARY KEY (bucket, id)
  );
  CREATE VIEW holdfast.readings_view AS
    SELECT asset_id, metric_name, device_ts, coalesce(number, whole::float8) AS value, quality,
      type, whole AS value_exact, text AS value_text, bytes AS value_bytes
    FROM holdfast.readings JOIN holdfast.series ON series.id = series_id;
  CREATE VIEW holdfast.sensor_readings AS
    SELECT device_ts AS time, asset_id AS device_id, metric_name AS metric_type, value FROM holdfast.readings_view;
  CREATE VIEW holdfast.numbers AS
    SELECT series_id, device_ts, value FROM (
      SELECT series_id, device_ts, quality, coalesce(number, whole::float8) AS value FROM holdfast.readings) AS all_readings
    WHERE quality >= 64 AND value > '-Infinity' AND value < 'Infinity';
  CREATE FUNCTION holdfast.hour_of(id int, hour timestamptz)
    RETURNS TABLE (readings bigint, count bigint, sum float8, min float8, max float8, first float8, last float8)
    LANGUAGE sql STABLE AS $$
      SELECT
        (SELECT count(*) FROM holdfast.readings
         WHERE series_id = id AND device_ts >= hour AND device_ts < hour + interval '1 hour'),
        count(*), sum(value), min(value), max(value),
        (SELECT value FROM holdfast.numbers
         WHERE series_id = id AND device_ts >= hour AND device_ts < hour + interval '1 hour'
         ORDER BY device_ts LIMIT 1),
        (SELECT value FROM holdfast.numbers
         WHERE series_id = id AND device_ts >= hour AND device_ts < hour + interval '1 hour'
         ORDER BY device_ts DESC LIMIT 1)
      FROM holdfast.numbers WHERE series_id = id AND device_ts >= hour AND device_ts < hour + interval '1 hour'
    $$;
  CREATE VIEW holdfast.sensor_readings_1h AS
    SELECT bucket, asset_id AS device_id, metric_name AS metric_type, readings, count, sum / nullif(count, 0) AS avg,
      sum, min, max, first, last
    FROM (
      SELECT series_id, bucket, readings, count, sum, min, max, first, last FROM holdfast.rollup_1h AS r
      WHERE NOT EXISTS (SELECT FROM holdfast.dirty AS d WHERE d.bucket = r.bucket AND r.series_id = ANY (d.series_ids))
      UNION ALL
      SELECT series_id, bucket, h.* FROM (SELECT DISTINCT bucket, unnest(series_ids) AS series_id FROM holdfast.dirty) AS d,
        LATERAL holdfast.hour_of(series_id, bucket) AS h WHERE h.readings > 0
    ) AS hours JOIN holdfast.series ON series.id = series_id;
  CREATE VIEW holdfast.sensor_readings_1d AS
    SELECT date_bin('1 day', bucket, timestamptz 'epoch') AS bucket, device_id, metric_type,
      sum(readings) AS readings, sum(count) AS count, sum(sum) / nullif(sum(count), 0) AS avg,
      sum(sum) AS sum, min(min) AS min, max(max) AS max
    FROM holdfast.sensor_readings_1h GROUP BY 1, 2, 3;
  `,
  `
  CREATE TABLE holdfast.raw_floor (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), floor bigint, removed bigint NOT NULL DEFAULT 0
  );
  INSERT INTO holdfast.raw_floor DEFAULT VALUES;
  CREATE TABLE holdfast.dirty_days (day timestamptz PRIMARY KEY);
  `,
  POSTGRES_GAP_VIEWS,
  `
  ALTER TABLE holdfast.series ADD COLUMN unit text;
  CREATE OR REPLACE VIEW holdfast.readings_view AS
    SELECT asset_id, metric_name, device_ts, coalesce(number, whole::float8) AS value, quality,
      type, whole AS value_exact, text AS value_text, bytes AS value_bytes, unit
    FROM holdfast.readings JOIN holdfast.series ON series.id = series_id;
  CREATE OR REPLACE VIEW holdfast.sensor_readings AS
    SELECT device_ts AS time, asset_id AS device_id, metric_name AS metric_type, value, unit FROM holdfast.readings_view;
  `,
];
