import type { Epoch, GatewayId, Millis, Seq } from '../model/ids.js';
import type { Source } from '../model/row.js';
import type { LedgerEntry, Totals } from './historian.js';
import { holesIn, mergeRanges, type SeqRange } from './ledger.js';
import type { PostgresPool } from './postgres-pool.js';

const COUNTS = ['batches', 'rows', 'stored', 'duplicates', 'conflicts', 'gaps', 'quarantined', 'opaque'] as const;

interface Known extends Record<(typeof COUNTS)[number], number> {
  readonly id: number;
  readonly gateway: string;
  readonly epoch: string;
  readonly received: readonly SeqRange[];
  readonly lost: readonly SeqRange[];
  readonly last_batch_at: number;
  readonly newest_ts: number | null;
}

/** What this worker knows of every source's ledger, from its own commits and from looking at the table now and then. */
export class PostgresLedger {
  private readonly pool: PostgresPool;
  private readonly sources = new Map<number, Known>();
  private readonly ids = new Map<string, number>();
  private deadBatches = 0;

  constructor(pool: PostgresPool) {
    this.pool = pool;
  }

  async look(): Promise<void> {
    const records = await this.pool.query<Record<string, unknown>>(
      `SELECT sources.*, received::text AS received, (SELECT range_agg(int8range(first, last, '[]'))::text
         FROM holdfast.lost WHERE source_id = sources.id) AS lost FROM holdfast.sources`,
    );
    const [dead] = await this.pool.query<{ count: number }>('SELECT count(*) AS count FROM holdfast.dead_batches');
    for (const record of records) this.keep(record, parseRanges(record.lost as string | null));
    this.deadBatches = dead?.count ?? 0;
  }

  /** Takes over the source's row as a commit has left it. */
  note(record: Record<string, unknown>, lost: readonly SeqRange[]): void {
    const before = this.sources.get(record.id as number)?.lost ?? [];
    this.keep(record, lost.length > 0 ? mergeRanges([...before, ...lost]) : before);
  }

  /** The highest seq of a source that is known to have been received. */
  highest(sourceId: number): number {
    return this.sources.get(sourceId)?.received.at(-1)?.to ?? 0;
  }

  totals(): Totals {
    const totals = { batches: 0, rows: 0, stored: 0, duplicates: 0, conflicts: 0, gaps: 0, quarantined: 0, opaque: 0 };
    for (const source of this.sources.values()) for (const count of COUNTS) totals[count] += source[count];
    return { ...totals, deadBatches: this.deadBatches };
  }

  entries(): LedgerEntry[] {
    return [...this.sources.values()].sort((a, b) => a.id - b.id).map(entryOf);
  }

  entry(source: Source): LedgerEntry | undefined {
    const id = this.ids.get(`${source.gateway}\0${source.epoch}`);
    const known = id === undefined ? undefined : this.sources.get(id);
    return known && entryOf(known);
  }

  /** Commits and looks may be answered in another order than they happened: the one with more batches is the newer one. */
  private keep(record: Record<string, unknown>, lost: readonly SeqRange[]): void {
    const known = { ...record, received: parseRanges(record.received as string), lost } as unknown as Known;
    const before = this.sources.get(known.id);
    if (before && known.batches < before.batches) return;
    this.sources.set(known.id, known);
    this.ids.set(`${known.gateway}\0${known.epoch}`, known.id);
  }
}

function entryOf({ gateway, epoch, received, lost, last_batch_at, newest_ts }: Known): LedgerEntry {
  const known = mergeRanges([...received, ...lost]);
  return {
    gateway: gateway as GatewayId,
    epoch: epoch as Epoch,
    received,
    lost,
    holes: holesIn(known),
    last: (known.at(-1)?.to ?? 0) as Seq,
    lastBatchAt: last_batch_at as Millis,
    newestTs: newest_ts as Millis | null,
  };
}

/** `{[1,501),[700,801)}` as PostgreSQL writes an int8multirange: always with the upper end excluded. */
export function parseRanges(text: string | null): SeqRange[] {
  const ranges = text?.matchAll(/\[(\d+),(\d+)\)/g) ?? [];
  return Array.from(ranges, ([, from, end]) => ({ from: Number(from), to: Number(end) - 1 }));
}
