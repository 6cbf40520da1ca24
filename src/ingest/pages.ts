import type { Log } from '../lib/log.js';
import { json } from '../web/answer.js';
import { WebServer } from '../web/server.js';
import type { Ingest } from './ingest.js';

/** `/status` as JSON and `/healthz`; what the ingest shows over HTTP. */
export class IngestPages {
  private readonly server: WebServer;

  private constructor(server: WebServer) {
    this.server = server;
  }

  static async open(listen: string, ingest: Ingest, log: Log): Promise<IngestPages> {
    const routes = { '/status': () => json(ingest.status()), '/healthz': () => json({ ok: true }) };
    return new IngestPages(await WebServer.open({ listen, routes, log }));
  }

  get url(): string {
    return this.server.url;
  }

  close(): Promise<void> {
    return this.server.close();
  }
}
