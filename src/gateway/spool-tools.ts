/** What can be done to a spool file from the command line. Reading is safe while a gateway runs; changing is not, and refused. */
import { existsSync, statSync } from 'node:fs';
import { Broker } from '../broker/broker.js';
import { systemClock } from '../lib/clock.js';
import { HoldfastError } from '../lib/errors.js';
import type { Millis, Seq } from '../model/ids.js';
import { Spool } from '../spool/spool.js';
import { type FileRow, type FileStats, SpoolFile } from '../spool/spool-file.js';
import { Store } from '../store/store.js';
import { StoredCommands } from './stored-commands.js';

/** A running gateway does not let go of its file; to wait for it is pointless. */
const LOCK_WAIT_MS = 200;
const ENQUEUE_ROWS = 500;
/** For a look at a payload in a list. */
const PREVIEW_CHARS = 60;

export interface SpoolReport extends FileStats {
  readonly file: string;
  readonly fileBytes: number;
  readonly logBytes: number;
  readonly balanced: boolean;
  readonly oldestAgeMs: number;
}

export async function spoolReport(file: string): Promise<SpoolReport> {
  return withFile(file, (spool) => {
    const stats = spool.stats();
    const { received, rows, acknowledged, dropped, dead, oldestAt } = stats;
    const sizeOf = (path: string) => (existsSync(path) ? statSync(path).size : 0);
    return {
      file,
      ...stats,
      balanced: received === rows + acknowledged + dropped + dead,
      oldestAgeMs: oldestAt === null ? 0 : Math.max(0, Date.now() - oldestAt),
      fileBytes: sizeOf(file),
      logBytes: sizeOf(`${file}-wal`),
    };
  });
}

/** Hands over rows, or dead letters, one by one; at most `max`. */
export function spoolRows(
  file: string,
  { dead = false, after = 0, max = Number.POSITIVE_INFINITY },
  take: (row: FileRow) => void,
): Promise<void> {
  return withFile(file, (spool) => {
    let left = max;
    for (const row of dead ? spool.dead() : spool.rows(after)) {
      if (row.seq <= after) continue;
      if (left-- <= 0) return;
      take(row);
    }
  });
}

/** Findings in words; none when the file is sound and its accounts are right. */
export function verifySpool(file: string): Promise<string[]> {
  return withFile(file, (spool) => spool.verify());
}

/** Puts dead letters back into the queue: those with the given seqs, or all. Resolves with how many there were. */
export async function requeue(file: string, seqs: readonly Seq[] | 'all'): Promise<number> {
  if (!existsSync(file)) throw new HoldfastError('usage.invalid', `There is no file ${file}`);
  return withSpool(file, async (spool) => {
    const wanted = seqs === 'all' ? (await spool.dead(Number.MAX_SAFE_INTEGER)).map(({ seq }) => seq) : seqs;
    let count = 0;
    for (const seq of wanted) if ((await spool.requeue(seq)) !== null) count++;
    return count;
  });
}

/** Reads what can be read of a damaged file and appends it, dead letters aside, to the spool at `into`, if one is named. */
export async function salvage(file: string, into: string | undefined): Promise<{ rows: number; dead: number }> {
  if (into === undefined) return withFile(file, (spool) => ({ rows: count(spool.rows()), dead: count(spool.dead()) }));
  const source = await SpoolFile.open(file);
  try {
    return await withSpool(into, async (spool) => {
      let rows = 0;
      let piece: FileRow[] = [];
      const flush = async () => {
        await spool.enqueue(piece);
        rows += piece.length;
        piece = [];
      };
      for (const row of source.rows()) if (piece.push(row) >= ENQUEUE_ROWS) await flush();
      if (piece.length > 0) await flush();
      return { rows, dead: count(source.dead()) };
    });
  } finally {
    source.close();
  }
}

/** One row as plain data: the payload as text where it is text, as base64 where it is not. */
export function rowData(row: FileRow) {
  const { seq, topic, qos, retain, type, asset, metric, deviceTs, enqueuedAt, reason, buriedAt } = row;
  const text = Buffer.from(row.payload).toString('utf8');
  const isText = Buffer.from(text).equals(Buffer.from(row.payload));
  return {
    seq,
    topic,
    type,
    ...(asset === null ? {} : { asset }),
    ...(metric === null ? {} : { metric }),
    ...(deviceTs === null ? {} : { deviceTs }),
    enqueuedAt,
    qos,
    retain,
    ...(isText ? { payload: text } : { payloadBase64: Buffer.from(row.payload).toString('base64') }),
    ...(reason === undefined ? {} : { reason, buriedAt }),
  };
}

/** The same as a line for people. */
export function rowLine(row: FileRow): string {
  const text = Buffer.from(row.payload).toString('utf8').replaceAll(/\p{C}/gu, '·');
  const preview = text.length > PREVIEW_CHARS ? `${text.slice(0, PREVIEW_CHARS)}…` : text;
  const at = new Date(row.enqueuedAt as Millis).toISOString();
  const why = row.reason === undefined ? '' : `  [${row.reason}]`;
  return `${String(row.seq).padStart(10)}  ${at}  ${row.topic}  ${row.payload.length} B  ${preview}${why}`;
}

async function withFile<T>(file: string, use: (spool: SpoolFile) => T): Promise<T> {
  const spool = await SpoolFile.open(file);
  try {
    return use(spool);
  } finally {
    spool.close();
  }
}

async function withSpool<T>(file: string, use: (spool: Spool) => Promise<T>): Promise<T> {
  const store = await Store.open({
    path: file,
    tables: [Spool.tables, Broker.tables, StoredCommands.tables],
    busyTimeoutMs: LOCK_WAIT_MS,
  });
  try {
    return await use(await Spool.open(store, systemClock));
  } finally {
    await store.close();
  }
}

function count(rows: Iterable<FileRow>): number {
  let n = 0;
  for (const _ of rows) n++;
  return n;
}
