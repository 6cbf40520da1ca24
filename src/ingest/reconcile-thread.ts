/**
 * Reconciles a window in a thread of its own: hours of readings are looked through, which must neither hold up an
 * acknowledgement nor stay in the memory of the ingest.
 */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { HoldfastError } from '../lib/errors.js';
import type { GatewayId } from '../model/ids.js';
import { type HistorianOptions, openRecords } from './open-historian.js';
import { reconcile } from './reconcile.js';
import type { Window } from './records.js';

/** Metric hours that are not proved complete, by gateway; a gateway that is not in it has none. */
export type Incomplete = ReadonlyMap<GatewayId, number>;

interface Task {
  readonly historian: Pick<HistorianOptions, 'type'> & ({ readonly path: string } | { readonly url: string });
  readonly window: Window;
}

type Reply = { readonly incomplete: Incomplete } | { readonly failure: string };

/** Rejects with `historian.io`, also when `signal` aborts. */
export async function reconcileInThread(
  options: HistorianOptions,
  window: Window,
  signal: AbortSignal,
): Promise<Incomplete> {
  // What a thread needs of them; a clock cannot be sent.
  const historian =
    options.type === 'postgres' ? { type: options.type, url: options.url } : { type: options.type, path: options.path };
  const worker = new Worker(new URL(import.meta.url), { workerData: { historian, window } satisfies Task });
  const abort = () => void worker.terminate();
  signal.addEventListener('abort', abort, { once: true });
  try {
    const reply = await new Promise<Reply>((resolve) => {
      worker.once('message', resolve);
      worker.once('error', (error) => resolve({ failure: error.message }));
      worker.once('exit', () => resolve({ failure: 'it was stopped' }));
    });
    if ('failure' in reply) throw new HoldfastError('historian.io', `Cannot reconcile: ${reply.failure}`);
    return reply.incomplete;
  } finally {
    signal.removeEventListener('abort', abort);
    await worker.terminate();
  }
}

async function run({ historian, window }: Task): Promise<Incomplete> {
  const records = await openRecords(historian as HistorianOptions);
  try {
    const incomplete = new Map<GatewayId, number>();
    for await (const { gateway, verdict, uncounted } of reconcile(records, window)) {
      const proved = verdict === 'complete' && uncounted === 0;
      if (!proved) incomplete.set(gateway, (incomplete.get(gateway) ?? 0) + 1);
    }
    return incomplete;
  } finally {
    await records.close();
  }
}

if (!isMainThread && parentPort && (workerData as Task | null)?.window) {
  const port = parentPort;
  run(workerData as Task).then(
    (incomplete) => port.postMessage({ incomplete } satisfies Reply),
    (error: Error) => port.postMessage({ failure: error.message } satisfies Reply),
  );
}
