import { assert } from '../lib/assert.js';
import type { Millis } from '../model/ids.js';
import type { Source } from '../model/row.js';
import type { Batch, ReadingRow, SeriesUnit } from '../wire/batch.js';
import type { PostgresPool } from './postgres-pool.js';

/** Series remembered to save a look-up per batch; far more than one site has, and only a cache. */
const SERIES_CACHED_MAX = 200_000;
const SOURCES_CACHED_MAX = 10_000;
/** Another worker may have changed a unit; the next batch that names it after this sets it right. */
const UNITS_TRUSTED_MS = 60_000;

/**
 * The ids of sources and series. They are made in transactions of their own, before the batch that needs them: an id never
 * changes and a series without readings is harmless, so nothing has to be forgotten when the batch is rolled back, and no
 * worker waits for another one's batch because both have met the same new series.
 */
export class PostgresKeys {
  private readonly pool: PostgresPool;
  private readonly sources = new Map<string, number>();
  private readonly series = new Map<string, number>();
  private readonly units = new Map<string, string>();
  private unitsSince = 0;

  constructor(pool: PostgresPool) {
    this.pool = pool;
  }

  async sourceId({ gateway, epoch }: Source): Promise<number> {
    const key = `${gateway}\0${epoch}`;
    const known = this.sources.get(key);
    if (known !== undefined) return known;
    await this.pool.query(
      `INSERT INTO holdfast.sources (gateway, epoch) SELECT $1, $2
       WHERE NOT EXISTS (SELECT FROM holdfast.sources WHERE gateway = $1 AND epoch = $2) ON CONFLICT DO NOTHING`,
      [gateway, epoch],
    );
    const [found] = await this.pool.query<{ id: number }>(
      'SELECT id FROM holdfast.sources WHERE gateway = $1 AND epoch = $2',
      [gateway, epoch],
    );
    assert(found, 'a source that was inserted is there', { gateway, epoch });
    if (this.sources.size >= SOURCES_CACHED_MAX) this.sources.clear();
    this.sources.set(key, found.id);
    return found.id;
  }

  /** Makes sure that `seriesId` knows every series of the batch, and the table their units. */
  async learn({ rows, units = [] }: Batch, now: Millis): Promise<void> {
    await this.learnSeries(rows);
    if (units.length > 0) await this.learnUnits(units, now);
  }

  private async learnUnits(units: readonly SeriesUnit[], now: Millis): Promise<void> {
    if (Math.abs(now - this.unitsSince) >= UNITS_TRUSTED_MS || this.units.size > SERIES_CACHED_MAX) {
      this.units.clear();
      this.unitsSince = now;
    }
    const changed = new Map<string, SeriesUnit>();
    for (const unit of units) if (this.units.get(keyOf(unit)) !== unit.unit) changed.set(keyOf(unit), unit);
    if (changed.size === 0) return;
    const wanted = [...changed.values()];
    // Locked in the order of their ids, so that two workers wait for each other instead of for ever.
    await this.pool.query(
      `WITH changed AS (
         SELECT series.id, s.unit FROM unnest($1::text[], $2::text[], $3::text[]) AS s(asset, metric, unit)
         JOIN holdfast.series ON asset_id = asset AND metric_name = metric
         WHERE series.unit IS DISTINCT FROM s.unit ORDER BY series.id FOR UPDATE OF series)
       UPDATE holdfast.series SET unit = changed.unit FROM changed WHERE series.id = changed.id`,
      [wanted.map(({ asset }) => asset), wanted.map(({ metric }) => metric), wanted.map(({ unit }) => unit)],
    );
    for (const [key, { unit }] of changed) this.units.set(key, unit);
  }

  private async learnSeries(rows: Batch['rows']): Promise<void> {
    const unknown = new Map<string, ReadingRow>();
    for (const row of rows)
      if (row.type !== 'p' && row.type !== 'g' && !this.series.has(keyOf(row))) unknown.set(keyOf(row), row);
    if (unknown.size === 0) return;
    const wanted = [...unknown.values()];
    const assets = wanted.map(({ asset }) => asset);
    const metrics = wanted.map(({ metric }) => metric);
    await this.pool.query(
      `INSERT INTO holdfast.series (asset_id, metric_name, topic)
       SELECT asset, metric, topic FROM unnest($1::text[], $2::text[], $3::text[]) AS s(asset, metric, topic)
       WHERE NOT EXISTS (SELECT FROM holdfast.series WHERE asset_id = asset AND metric_name = metric)
       ORDER BY 1, 2 ON CONFLICT DO NOTHING`,
      [assets, metrics, wanted.map(({ topic }) => topic)],
    );
    const found = await this.pool.query<{ id: number; asset: string; metric: string }>(
      `SELECT id, asset, metric FROM unnest($1::text[], $2::text[]) AS s(asset, metric)
       JOIN holdfast.series ON asset_id = asset AND metric_name = metric`,
      [assets, metrics],
    );
    if (this.series.size + found.length > SERIES_CACHED_MAX) this.series.clear();
    for (const { id, ...key } of found) this.series.set(keyOf(key), id);
  }

  seriesId(key: { readonly asset: string; readonly metric: string }): number | undefined {
    return this.series.get(keyOf(key));
  }
}

function keyOf({ asset, metric }: { readonly asset: string; readonly metric: string }): string {
  return `${asset}\0${metric}`;
}
