import { Worker } from 'node:worker_threads';
import { assert } from '../lib/assert.js';
import { HoldfastError } from '../lib/errors.js';
import { type Log, silentLog } from '../lib/log.js';
import type { Opened, Reply, WorkerOptions } from './protocol.js';

/** 1000 pages of 4 KiB bound the log to about 4 MiB between checkpoints. */
const LOG_PAGES_MAX = 1_000;
const FULL_HINT = 'free some space on this device; nothing is lost by waiting';

export interface StoreOptions {
  readonly path: string;
  /** The modules that own tables: `new URL('…', import.meta.url)`. */
  readonly tables: readonly URL[];
  readonly busyTimeoutMs?: number;
  /** Upper bound of the file in 4 KiB pages; reaching it is the same as a full device. */
  readonly pagesMax?: number;
  /** Pages that the write-ahead log may hold before they are moved into the file. */
  readonly logPagesMax?: number;
  /** Space kept aside so that deletions and checkpoints work on a full device; absent: none. */
  readonly ballastBytes?: number;
  /** Bytes of a group; a smaller one needs a smaller log. */
  readonly groupBytesMax?: number;
  readonly log?: Log;
}

export interface OpenThread {
  readonly worker: Worker;
  readonly opened: Opened;
  readonly gauges: Float64Array;
}

/**
 * Starts the store's thread and waits until it has opened the file. Throws `spool.locked`, `spool.version`,
 * `spool.not-durable`, `spool.full` or `spool.io`.
 */
export async function openThread(options: StoreOptions): Promise<OpenThread> {
  const { path, busyTimeoutMs, pagesMax, logPagesMax = LOG_PAGES_MAX, ballastBytes, log = silentLog } = options;
  const tables = options.tables.map(String);
  const workerData: WorkerOptions = { path, busyTimeoutMs, pagesMax, logPagesMax, ballastBytes, tables };
  const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData, name: 'store' });
  const first = await new Promise<Reply>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  if (first.kind === 'opened') {
    if (first.opened.healed)
      log.warn({ path }, 'The last run ended with an I/O error; the spool is on fresh blocks now');
    return { worker, opened: first.opened, gauges: first.gauges };
  }
  assert(first.kind === 'broken', 'the first answer of the store thread is opened or broken');
  await worker.terminate();
  const { code, message } = first.failure;
  if (code.startsWith('SQLITE_FULL') || code === 'ENOSPC')
    throw new HoldfastError('spool.full', `There is no room for ${path}: ${message}`, { hint: FULL_HINT });
  throw code === 'spool.locked' || code === 'spool.version' || code === 'spool.not-durable'
    ? new HoldfastError(code, message, { hint: first.hint })
    : new HoldfastError('spool.io', `Cannot open ${path}: ${message}`, { values: { code } });
}
