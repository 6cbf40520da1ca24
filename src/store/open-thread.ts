import { Worker } from 'node:worker_threads';
import { assert } from '../lib/assert.js';
import { HoldfastError } from '../lib/errors.js';
import type { Opened, Reply, WorkerOptions } from './protocol.js';

const FULL_HINT = 'free some space on this device; nothing is lost by waiting';

export interface OpenThread {
  readonly worker: Worker;
  readonly opened: Opened;
  readonly gauges: Float64Array;
}

/**
 * Starts the store's thread and waits until it has opened the file. Throws `spool.locked`, `spool.version`,
 * `spool.not-durable`, `spool.full` or `spool.io`.
 */
export async function openThread(workerData: WorkerOptions): Promise<OpenThread> {
  const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData, name: 'store' });
  const first = await new Promise<Reply>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  if (first.kind === 'opened') return { worker, opened: first.opened, gauges: first.gauges };
  assert(first.kind === 'broken', 'the first answer of the store thread is opened or broken');
  await worker.terminate();
  const { code, message } = first.failure;
  const { path } = workerData;
  if (code.startsWith('SQLITE_FULL') || code === 'ENOSPC')
    throw new HoldfastError('spool.full', `There is no room for ${path}: ${message}`, { hint: FULL_HINT });
  throw code === 'spool.locked' || code === 'spool.version' || code === 'spool.not-durable'
    ? new HoldfastError(code, message, { hint: first.hint })
    : new HoldfastError('spool.io', `Cannot open ${path}: ${message}`, { values: { code } });
}
