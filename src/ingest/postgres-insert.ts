/**
 * The statements that write rows. Parameters: $1 the source, then one array per column, last the time of arrival. Every
 * INSERT sorts by its key: two transactions with overlapping keys in different orders would deadlock, because
 * `ON CONFLICT` waits for the other one's row.
 */

/** Milliseconds to `timestamptz`, exact in the range that the writer lets through. */
const at = (ms: string) => `timestamptz 'epoch' + ${ms} * interval '1 millisecond'`;

const READINGS = `unnest($2::int[], $3::bigint[], $4::text[], $5::float8[], $6::numeric[], $7::text[], $8::bytea[],
  $9::smallint[], $10::bigint[]) AS s(series_id, ts, type, number, whole, text, bytes, quality, seq)`;

/**
 * With a dirty marker for every hour that has got a row, so that no crash can part the two: see rollups.ts. One row tells of
 * all series of the hour, because a batch often has one reading of each of hundreds.
 */
export const INSERT_READINGS = `
  WITH inserted AS (
    INSERT INTO holdfast.readings (series_id, device_ts, type, number, whole, text, bytes, quality, source_id, seq)
    SELECT series_id, ${at('ts')}, type::"char", number, whole, text, bytes, quality, $1::int, seq
    FROM ${READINGS} ORDER BY series_id, ts, seq
    ON CONFLICT (series_id, device_ts) DO NOTHING
    RETURNING series_id, device_ts
  ), marked AS (
    INSERT INTO holdfast.dirty (bucket, series_ids)
    SELECT date_bin('1 hour', device_ts, timestamptz 'epoch') AS bucket, array_agg(DISTINCT series_id)
    FROM inserted GROUP BY 1
  )
  SELECT count(*) AS count FROM inserted`;

/**
 * What became of the readings that found their key taken by another identity: with another value they are conflicts, with
 * the same one they are noted as absorbed. A statement of its own, since one statement does not see what it has inserted.
 * The LIMIT keeps the planner to one look into the index per row; it would read the whole table for a batch otherwise.
 */
export const ABSORB = `
  WITH other AS (
    SELECT s.*, r.device_ts, (s.type::"char", s.quality, s.number, s.whole, s.text, s.bytes)
      IS NOT DISTINCT FROM (r.type, r.quality, r.number, r.whole, r.text, r.bytes) AS same
    FROM ${READINGS}, LATERAL (
      SELECT * FROM holdfast.readings WHERE series_id = s.series_id AND device_ts = ${at('s.ts')} LIMIT 1) AS r
    WHERE (r.source_id, r.seq) IS DISTINCT FROM ($1::int, s.seq)
  ), conflicting AS (
    INSERT INTO holdfast.conflicts
      (series_id, device_ts, source_id, seq, type, number, whole, text, bytes, quality, received_at)
    SELECT series_id, device_ts, $1::int, seq, type::"char", number, whole, text, bytes, quality, ${at('$11::bigint')}
    FROM other WHERE NOT same ORDER BY series_id, device_ts, seq ON CONFLICT DO NOTHING RETURNING 1
  ), absorbed AS (
    INSERT INTO holdfast.absorbed (series_id, device_ts, source_id, seq)
    SELECT series_id, device_ts, $1::int, seq FROM other WHERE same ORDER BY series_id, device_ts, seq
    ON CONFLICT DO NOTHING
  )
  SELECT count(*) AS count FROM conflicting`;

const GAPS = `unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
  $9::text[]) AS s(seq, asset, metric, from_ms, to_ms, count, reason, detail)`;

const OPAQUE = `unnest($2::bigint[], $3::text[], $4::bigint[], $5::boolean[], $6::bytea[])
  AS s(seq, topic, ts, retain, payload)`;

export const INSERT_GAPS = {
  insert: `
    WITH inserted AS (
      INSERT INTO holdfast.gaps
        (source_id, seq, asset_id, metric_name, from_ts, to_ts, count, reason, detail, received_at)
      SELECT $1::int, seq, asset, metric, ${at('from_ms')}, ${at('to_ms')}, count, reason, detail, ${at('$10::bigint')}
      FROM ${GAPS} ORDER BY seq ON CONFLICT DO NOTHING RETURNING 1)
    SELECT count(*) AS count FROM inserted`,
  /** Seqs under which another gap is stored. */
  others: `
    SELECT s.seq FROM ${GAPS} JOIN holdfast.gaps g ON g.source_id = $1::int AND g.seq = s.seq
    WHERE (s.asset, s.metric, ${at('s.from_ms')}, ${at('s.to_ms')}, s.count, s.reason, s.detail)
      IS DISTINCT FROM (g.asset_id, g.metric_name, g.from_ts, g.to_ts, g.count, g.reason, g.detail)`,
};

export const INSERT_OPAQUE = {
  insert: `
    WITH inserted AS (
      INSERT INTO holdfast.opaque (source_id, seq, topic, ts, retain, payload, received_at)
      SELECT $1::int, seq, topic, ts, retain, payload, ${at('$7::bigint')}
      FROM ${OPAQUE} ORDER BY seq ON CONFLICT DO NOTHING RETURNING 1)
    SELECT count(*) AS count FROM inserted`,
  /** Seqs under which another message is stored. */
  others: `
    SELECT s.seq FROM ${OPAQUE} JOIN holdfast.opaque o ON o.source_id = $1::int AND o.seq = s.seq
    WHERE (s.topic, s.payload) IS DISTINCT FROM (o.topic, o.payload)`,
};

export const INSERT_QUARANTINE = `
  WITH inserted AS (
    INSERT INTO holdfast.quarantine
      (source_id, seq, reason, topic, asset_id, metric_name, ts, type, quality, number, whole, text, bytes, received_at)
    SELECT $1::int, seq, reason, topic, asset, metric, ts, type::"char", quality, number, whole, text, bytes,
      ${at('$14::bigint')}
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::smallint[],
      $10::float8[], $11::numeric[], $12::text[], $13::bytea[])
      AS s(seq, reason, topic, asset, metric, ts, type, quality, number, whole, text, bytes)
    ORDER BY seq, reason ON CONFLICT DO NOTHING RETURNING 1)
  SELECT count(*) AS count FROM inserted`;

export const UPSERT_TALLIES = `
  INSERT INTO holdfast.tallies AS t (hour, asset_id, metric_name, source_id, first, last, count, checksum, up_to)
  SELECT hour, asset, metric, $1::int, first, last, count, checksum, up_to
  FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
    AS s(hour, asset, metric, first, last, count, checksum, up_to)
  ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (hour, asset_id, metric_name, source_id, first) DO UPDATE SET last = excluded.last, count = excluded.count,
    checksum = excluded.checksum, up_to = excluded.up_to WHERE excluded.up_to > t.up_to`;
