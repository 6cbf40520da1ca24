import { createHash } from 'node:crypto';
import { type Clock, systemClock } from '../lib/clock.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import type { Source } from '../model/row.js';
import type { Batch } from '../wire/batch.js';
import {
  type DeadBatch,
  FUTURE_MS_MAX,
  type Historian,
  type LedgerEntry,
  type Outcome,
  type Totals,
} from './historian.js';
import { shareFloor } from './postgres-floor.js';
import { PostgresKeys } from './postgres-keys.js';
import { PostgresLedger } from './postgres-ledger.js';
import { writeLedger } from './postgres-ledger-writer.js';
import { type PostgresConnection, PostgresPool } from './postgres-pool.js';
import { PostgresRollups } from './postgres-rollups.js';
import { migrate, requireCurrent, requireDurable } from './postgres-schema.js';
import { setOldAside, sortRows, writeRows } from './postgres-writer.js';
import type { Rollups } from './rollups.js';
import { foreignRetention, type Timescale } from './timescale.js';
import { TimescaleRollups } from './timescale-rollups.js';

export interface PostgresHistorianOptions extends PostgresConnection {
  /** The same database as the owner of the schema; absent: the user of `url` owns it, or finds it up to date. */
  readonly ownerUrl?: string;
  /** Batches of different gateways that are stored at the same time. */
  readonly connections?: number;
  /** Readings whose device time is further ahead of this machine's clock are kept aside. */
  readonly futureMaxMs?: number;
  /** Age at which single readings are removed; never by default. */
  readonly rawHorizonMs?: number;
  readonly clock?: Clock;
}

const CONNECTIONS = 4;
/** One refreshes, the other answers for its progress. */
const OWNER_CONNECTIONS = 2;
/** How often is looked for what other workers have stored. */
const LOOK_MS = 5000;

/**
 * A historian in the schema `holdfast` of a PostgreSQL database, for any number of workers at the same time. One batch is
 * one transaction: rows, gaps, conflicts, dirty markers and ledger become durable together. Batches of one gateway are
 * stored one after the other in the order in which they came, those of different gateways side by side.
 *
 * `totals` and `ledger` are exact for what this worker has stored, and some seconds old for what the others have.
 */
export class PostgresHistorian implements Historian {
  /** Never: a database that fails is tried again, and what its COMMIT has answered it holds. */
  readonly broken = new Promise<HoldfastError>(() => {});
  readonly rollups: Rollups;
  /** Of the last look at the database. */
  problem: string | undefined;
  warning: string | undefined;
  private readonly pool: PostgresPool;
  private readonly owner: PostgresPool;
  private readonly timescale: Timescale | undefined;
  private readonly keys: PostgresKeys;
  private readonly ledgers: PostgresLedger;
  private readonly clock: Clock;
  private readonly futureMaxMs: number;
  /** The last of the batches that wait, by gateway and epoch. */
  private readonly lines = new Map<string, Promise<unknown>>();
  private lookTimer: NodeJS.Timeout | undefined;
  private closing: Promise<void> | undefined;

  private constructor(
    pool: PostgresPool,
    owner: PostgresPool,
    timescale: Timescale | undefined,
    { clock = systemClock, futureMaxMs = FUTURE_MS_MAX, rawHorizonMs }: PostgresHistorianOptions,
  ) {
    this.pool = pool;
    this.owner = owner;
    this.timescale = timescale;
    // Only an owner may refresh an aggregate or drop a chunk; the rest is writing.
    this.rollups =
      timescale?.licence === 'timescale'
        ? new TimescaleRollups(owner, timescale, rawHorizonMs)
        : new PostgresRollups(timescale ? owner : pool, rawHorizonMs, timescale !== undefined);
    this.keys = new PostgresKeys(pool);
    this.ledgers = new PostgresLedger(pool);
    this.clock = clock;
    this.futureMaxMs = futureMaxMs;
  }

  /** Throws `historian.version` or `historian.io`. */
  static async open(options: PostgresHistorianOptions): Promise<PostgresHistorian> {
    const { url, ownerUrl, tls, connections = CONNECTIONS } = options;
    const pool = new PostgresPool({ url, tls, connections, applicationName: 'holdfast-ingest' });
    const owner =
      ownerUrl === undefined
        ? pool
        : new PostgresPool({
            url: ownerUrl,
            tls,
            connections: OWNER_CONNECTIONS,
            applicationName: 'holdfast-ingest-owner',
          });
    try {
      const timescale = await migrate(owner);
      await requireCurrent(pool);
      const historian = new PostgresHistorian(pool, owner, timescale, options);
      await historian.ledgers.look();
      historian.warning = timescale && (await foreignRetention(pool));
      historian.lookTimer = setInterval(() => void historian.look(), LOOK_MS);
      return historian;
    } catch (error) {
      await Promise.all([pool.close(), owner.close()]);
      throw error;
    }
  }

  ingest(batch: Batch): Promise<Outcome> {
    if (this.closing) return Promise.reject(new HoldfastError('historian.closed', 'the historian is closed'));
    return this.inLine(`${batch.source.gateway}\0${batch.source.epoch}`, () => this.store(batch));
  }

  async bury({ topic, bytes, code, reason }: DeadBatch): Promise<void> {
    const sha256 = createHash('sha256').update(bytes).digest();
    const text = [topic, code, reason].map((one) => one.replaceAll('\0', '\u{fffd}'));
    await this.pool.transaction(async (client) => {
      await client.query(
        `INSERT INTO holdfast.dead_batches (topic, code, reason, sha256, bytes, received_at)
         VALUES ($1, $2, $3, $4, $5, to_timestamp($6::bigint / 1000.0)) ON CONFLICT DO NOTHING`,
        [...text, sha256, Buffer.from(bytes), this.clock.now()],
      );
      const { rows } = await client.query(
        `SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commit`,
      );
      requireDurable(rows[0].fsync, rows[0].commit);
    });
    await this.ledgers.look();
  }

  totals(): Totals {
    return this.ledgers.totals();
  }

  ledger(): readonly LedgerEntry[] {
    return this.ledgers.entries();
  }

  entry(source: Source): LedgerEntry | undefined {
    return this.ledgers.entry(source);
  }

  close(): Promise<void> {
    this.closing ??= this.shut();
    return this.closing;
  }

  private async look(): Promise<void> {
    try {
      await this.ledgers.look();
      this.warning = this.timescale && (await foreignRetention(this.pool));
      this.problem = undefined;
    } catch (error) {
      this.problem = messageOf(error);
    }
  }

  private async shut(): Promise<void> {
    clearInterval(this.lookTimer);
    await Promise.allSettled(this.lines.values());
    await Promise.all([this.pool.close(), this.owner.close()]);
  }

  /** Runs `work` after everything of the same line, whether that succeeded or not. */
  private inLine<T>(key: string, work: () => Promise<T>): Promise<T> {
    const mine = (this.lines.get(key) ?? Promise.resolve()).then(work, work);
    this.lines.set(key, mine);
    const leave = () => {
      if (this.lines.get(key) === mine) this.lines.delete(key);
    };
    mine.then(leave, leave);
    return mine;
  }

  private async store(batch: Batch): Promise<Outcome> {
    const sourceId = await this.keys.sourceId(batch.source);
    const now = this.clock.now();
    await this.keys.learn(batch, now);
    const rows = sortRows(batch, now, this.futureMaxMs, (row) => this.keys.seriesId(row));
    const { outcome, record } = await this.pool.transaction(async (client) => {
      const sorted = setOldAside(rows, await shareFloor(client));
      const outcome = await writeRows(client, sourceId, sorted);
      const record = await writeLedger(client, sourceId, sorted, outcome, this.ledgers.highest(sourceId));
      requireDurable(String(record.fsync), String(record.commit));
      return { outcome, record };
    });
    this.ledgers.note(record, batch.lost);
    return outcome;
  }
}
