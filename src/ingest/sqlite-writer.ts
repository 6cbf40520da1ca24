import type Database from 'better-sqlite3';
import { assert } from '../lib/assert.js';
import type { Millis } from '../model/ids.js';
import type { ReadingType } from '../model/reading.js';
import type { Source } from '../model/row.js';
import type { Batch, BatchRow, GapRow, OpaqueRow, ReadingRow, SeriesUnit } from '../wire/batch.js';
import { parseTallies } from '../wire/tally.js';
import type { Outcome } from './historian.js';
import { runsOf } from './ledger.js';
import { hourOf } from './rollups.js';
import { SqliteLedger } from './sqlite-ledger.js';
import { type StoredValue, sameValue, storedValue } from './sqlite-value.js';

/** Series remembered to save a look-up per row; far more than one site has, and only a cache. */
const SERIES_CACHED_MAX = 200_000;

interface Existing {
  readonly type: ReadingType;
  readonly value: StoredValue;
  readonly quality: bigint;
  readonly source_id: bigint;
  readonly seq: bigint;
}

/**
 * Writes one batch inside a transaction that the caller has begun. Each row ends in exactly one table, or is recognised
 * as one that is there already; the outcome says which. After a rollback the caller must call `forget`.
 */
export class SqliteWriter {
  readonly ledger: SqliteLedger;
  private readonly futureMaxMs: number;
  private readonly sources = new Map<string, number>();
  private readonly series = new Map<string, { id: number; type: ReadingType }>();
  /** Units as they stand in the table, by the same key. */
  private readonly units = new Map<string, string>();
  /** The hour that was marked last in this batch, by series. */
  private readonly marked = new Map<number, number>();
  private readonly upsertSource: Database.Statement<[string, string, number], { id: number }>;
  private readonly touchSource: Database.Statement<[{ now: number; newest: number | null; id: number }]>;
  private readonly upsertSeries: Database.Statement<[string, string, string, string], { id: number }>;
  private readonly setUnit: Database.Statement<[string, string, string]>;
  private readonly insertReading: Database.Statement<unknown[]>;
  private readonly markDirty: Database.Statement<[number, number]>;
  private readonly insertAbsorbed: Database.Statement<[number, number, number, number]>;
  private readonly selectReading: Database.Statement<[number, number], Existing>;
  private readonly insertConflict: Database.Statement<unknown[]>;
  private readonly insertGap: Database.Statement<unknown[]>;
  private readonly selectGap: Database.Statement<unknown[]>;
  private readonly insertOpaque: Database.Statement<unknown[]>;
  private readonly selectOpaque: Database.Statement<unknown[]>;
  private readonly upsertTally: Database.Statement<unknown[]>;
  private readonly selectFloor: Database.Statement<[], number | null>;
  /** Readings from before this are not stored any more. */
  private floor = -Infinity;
  private readonly countRepeated: Database.Statement<[number, number]>;
  private readonly insertQuarantine: Database.Statement<unknown[]>;
  /** Readings of this batch that were here already, per series. */
  private readonly repeated = new Map<number, number>();

  constructor(db: Database.Database, futureMaxMs: number) {
    this.ledger = new SqliteLedger(db);
    this.futureMaxMs = futureMaxMs;
    this.upsertSource = db.prepare(
      `INSERT INTO sources (gateway, epoch, last_batch_at) VALUES (?, ?, ?)
       ON CONFLICT DO UPDATE SET last_batch_at = excluded.last_batch_at RETURNING id`,
    );
    this.touchSource = db.prepare(
      `UPDATE sources SET last_batch_at = @now,
         newest_ts = CASE WHEN @newest IS NULL THEN newest_ts ELSE max(ifnull(newest_ts, @newest), @newest) END
       WHERE id = @id`,
    );
    this.upsertSeries = db.prepare(
      `INSERT INTO series (asset_id, metric_name, type, topic) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET type = excluded.type, topic = excluded.topic RETURNING id`,
    );
    this.setUnit = db.prepare('UPDATE series SET unit = ? WHERE asset_id = ? AND metric_name = ?');
    this.insertReading = db.prepare(
      `INSERT INTO readings (series_id, device_ts, type, value, quality, source_id, seq) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT DO NOTHING`,
    );
    // One connection writes at a time, so a marker that is there already cannot be deleted between this and the commit.
    this.markDirty = db.prepare('INSERT INTO dirty (bucket, series_id) VALUES (?, ?) ON CONFLICT DO NOTHING');
    this.insertAbsorbed = db.prepare(
      'INSERT INTO absorbed (series_id, device_ts, source_id, seq) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
    );
    this.selectReading = db
      .prepare<[number, number], Existing>(
        'SELECT type, value, quality, source_id, seq FROM readings WHERE series_id = ? AND device_ts = ?',
      )
      .safeIntegers();
    this.insertConflict = db.prepare(
      `INSERT INTO conflicts (series_id, device_ts, type, value, quality, source_id, seq, received_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    );
    this.insertGap = db.prepare(
      `INSERT INTO gaps (source_id, seq, asset_id, metric_name, from_ts, to_ts, count, reason, detail, received_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    );
    this.selectGap = db.prepare(
      `SELECT 1 FROM gaps WHERE source_id = ? AND seq = ? AND asset_id = ? AND metric_name IS ? AND from_ts = ?
       AND to_ts = ? AND count IS ? AND reason = ? AND detail IS ?`,
    );
    this.insertOpaque = db.prepare(
      `INSERT INTO opaque (source_id, seq, topic, payload, ts, retain, received_at) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT DO NOTHING`,
    );
    this.selectOpaque = db.prepare(
      'SELECT 1 FROM opaque WHERE source_id = ? AND seq = ? AND topic = ? AND payload = ?',
    );
    this.upsertTally = db.prepare(
      `INSERT INTO tallies (hour, asset_id, metric_name, source_id, first, last, count, checksum, up_to)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET last = excluded.last, count = excluded.count, checksum = excluded.checksum,
         up_to = excluded.up_to WHERE excluded.up_to > up_to`,
    );
    this.selectFloor = db.prepare<[], number | null>('SELECT floor FROM raw_floor').pluck();
    this.countRepeated = db.prepare('UPDATE series SET duplicates = duplicates + ? WHERE id = ?');
    this.insertQuarantine = db.prepare(
      `INSERT INTO quarantine (source_id, seq, reason, topic, asset_id, metric_name, ts, type, value, quality, received_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    );
  }

  write(batch: Batch, now: Millis): Outcome {
    const sourceId = this.sourceId(batch.source, now);
    const counts = { stored: 0, duplicates: 0, conflicts: 0, gaps: 0, quarantined: 0, opaque: 0 };
    let newest: number | null = null;
    this.floor = this.selectFloor.get() ?? -Infinity;
    this.marked.clear();
    this.repeated.clear();
    for (const row of batch.rows) {
      counts[this.row(sourceId, row, now)]++;
      const isReading = row.type !== 'p' && row.type !== 'g';
      if (isReading && row.ts > (newest ?? -Infinity) && !this.isFuture(row.ts, now)) newest = row.ts;
    }
    for (const [seriesId, count] of this.repeated) this.countRepeated.run(count, seriesId);
    for (const unit of batch.units ?? []) this.keepUnit(unit);
    for (const run of runsOf(batch.rows)) this.ledger.add(sourceId, run, now);
    for (const range of batch.lost) this.ledger.addLost(sourceId, range);
    this.touchSource.run({ now, newest, id: sourceId });
    const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
    assert(total === batch.rows.length, 'every row of a batch is counted once', { ...counts, rows: batch.rows.length });
    return counts;
  }

  /** Drops what was learnt in a transaction that was rolled back. */
  forget(): void {
    this.sources.clear();
    this.series.clear();
    this.units.clear();
  }

  private row(sourceId: number, row: BatchRow, now: Millis): keyof Outcome {
    if (row.type === 'p') return this.opaque(sourceId, row, now);
    if (row.type === 'g') return this.gap(sourceId, row, now);
    const value = storedValue(row.type, row.value);
    if (this.isFuture(row.ts, now)) return this.quarantine(sourceId, row, 'future', value, now);
    if (row.ts < this.floor) return this.quarantine(sourceId, row, 'too-old', value, now);
    return this.reading(sourceId, row, value, now);
  }

  private isFuture(ts: number, now: Millis): boolean {
    return ts > now + this.futureMaxMs;
  }

  private reading(sourceId: number, row: ReadingRow, value: StoredValue, now: Millis): keyof Outcome {
    const { ts, type, quality, seq } = row;
    const seriesId = this.seriesId(row);
    if (this.insertReading.run(seriesId, ts, type, value, quality, sourceId, seq).changes === 1) {
      this.mark(seriesId, ts);
      return 'stored';
    }
    const existing = this.selectReading.get(seriesId, ts) as Existing;
    const again = Number(existing.source_id) === sourceId && Number(existing.seq) === seq;
    const same =
      again || (existing.type === type && Number(existing.quality) === quality && sameValue(value, existing.value));
    if (same) this.repeated.set(seriesId, (this.repeated.get(seriesId) ?? 0) + 1);
    if (again) return 'duplicates';
    if (same) {
      this.insertAbsorbed.run(seriesId, ts, sourceId, seq);
      return 'duplicates';
    }
    const { changes } = this.insertConflict.run(seriesId, ts, type, value, quality, sourceId, seq, now);
    return changes === 1 ? 'conflicts' : 'duplicates';
  }

  /** Once per batch and series while the hour stays the same, which is nearly always. */
  private mark(seriesId: number, ts: number): void {
    const bucket = hourOf(ts);
    if (this.marked.get(seriesId) === bucket) return;
    this.markDirty.run(bucket, seriesId);
    this.marked.set(seriesId, bucket);
  }

  private gap(sourceId: number, row: GapRow, now: Millis): keyof Outcome {
    const { from, to, count = null, reason, detail = null } = row.gap;
    const gap = [sourceId, row.seq, row.asset, row.metric, from, to, count, reason, detail];
    if (this.insertGap.run(...gap, now).changes === 1) return 'gaps';
    if (this.selectGap.get(...gap)) return 'duplicates';
    return this.quarantine(sourceId, row, 'identity-reused', JSON.stringify(row.gap), now);
  }

  private opaque(sourceId: number, row: OpaqueRow, now: Millis): keyof Outcome {
    const message = [sourceId, row.seq, row.topic, row.payload];
    if (this.insertOpaque.run(...message, row.ts, row.retain ? 1 : 0, now).changes === 1) {
      this.keepTallies(sourceId, row);
      return 'opaque';
    }
    if (this.selectOpaque.get(...message)) return 'duplicates';
    return this.quarantine(sourceId, row, 'identity-reused', row.payload, now);
  }

  private keepTallies(sourceId: number, row: OpaqueRow): void {
    const record = parseTallies(row);
    for (const { hour, asset, metric, first, last, count, checksum } of record?.tallies ?? [])
      this.upsertTally.run(hour, asset, metric, sourceId, first, last, count, checksum, record?.upTo);
  }

  private quarantine(sourceId: number, row: BatchRow, reason: string, value: StoredValue, now: Millis): keyof Outcome {
    const { seq, topic, asset, metric, ts, type, quality } = row;
    const { changes } = this.insertQuarantine.run(
      sourceId,
      seq,
      reason,
      topic,
      asset,
      metric,
      ts,
      type,
      value,
      quality,
      now,
    );
    return changes === 1 ? 'quarantined' : 'duplicates';
  }

  private sourceId({ gateway, epoch }: Source, now: Millis): number {
    const key = `${gateway}\0${epoch}`;
    let id = this.sources.get(key);
    if (id === undefined) {
      id = this.upsertSource.get(gateway, epoch, now)!.id;
      this.sources.set(key, id);
    }
    return id;
  }

  private keepUnit({ asset, metric, unit }: SeriesUnit): void {
    const key = `${asset}\0${metric}`;
    if (this.units.get(key) === unit) return;
    // A series whose readings were all kept aside may not be there yet.
    if (this.setUnit.run(unit, asset, metric).changes === 0) return;
    if (this.units.size >= SERIES_CACHED_MAX) this.units.clear();
    this.units.set(key, unit);
  }

  private seriesId({ asset, metric, type, topic }: ReadingRow): number {
    const key = `${asset}\0${metric}`;
    const known = this.series.get(key);
    if (known?.type === type) return known.id;
    const { id } = this.upsertSeries.get(asset, metric, type, topic)!;
    if (this.series.size >= SERIES_CACHED_MAX) this.series.clear();
    this.series.set(key, { id, type });
    return id;
  }
}
