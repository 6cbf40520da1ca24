import type { Log } from '../lib/log.js';
import { json } from '../web/answer.js';
import { metricsRoute } from '../web/metrics.js';
import { WebServer } from '../web/server.js';
import type { Ingest } from './ingest.js';
import { INGEST_METRICS } from './metrics.js';
import type { IngestStatus } from './status.js';

/** The ledger of thousands of gateways takes a while to put together; a scraper that asks more often gets the same again. */
const STATUS_AGE_MS_MAX = 1000;

/**
 * What an ingest shows over HTTP: `/status` as JSON, `/metrics` for Prometheus, `/healthz` while the process turns, and
 * `/readyz`, which is 503 while the store takes nothing. A broker that is away is no reason: restarting cannot mend it.
 */
export class IngestPages {
  private readonly server: WebServer;

  private constructor(server: WebServer) {
    this.server = server;
  }

  static async open(listen: string, ingest: Ingest, log: Log): Promise<IngestPages> {
    const status = remembered(() => ingest.status());
    const source = () => ({ status: status(), storeDuration: ingest.storeDuration });
    const routes = {
      '/status': () => json(ingest.status()),
      '/healthz': () => json({ ok: true }),
      '/readyz': () => {
        const { storeProblem, problem } = ingest.status();
        return json({ ready: storeProblem === null, problem }, storeProblem === null ? 200 : 503);
      },
      ...metricsRoute({ metrics: INGEST_METRICS, source, log }),
    };
    return new IngestPages(await WebServer.open({ listen, routes, log }));
  }

  get url(): string {
    return this.server.url;
  }

  close(): Promise<void> {
    return this.server.close();
  }
}

function remembered(take: () => IngestStatus): () => IngestStatus {
  let last: { readonly status: IngestStatus; readonly at: number } | undefined;
  return () => {
    const at = performance.now();
    if (!last || at - last.at > STATUS_AGE_MS_MAX) last = { status: take(), at };
    return last.status;
  };
}
