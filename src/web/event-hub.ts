import type { IncomingMessage, ServerResponse } from 'node:http';
import { refusal, SECURITY_HEADERS, send } from './answer.js';

/** Each watcher holds a socket and gets a snapshot a second; a control room has a handful. */
const CLIENTS_MAX = 16;
/** How long a browser waits before it comes back after a cut. */
const RETRY_MS = 2_000;

/**
 * One stream of server-sent events for many watchers. Every event stands for itself (it replaces the one before), so a
 * newcomer gets the latest at once, and a slow watcher skips events instead of making us queue them: what we hold for it
 * never exceeds one event beyond the socket's own buffer.
 */
export class EventHub {
  private readonly clients = new Set<ServerResponse>();
  private readonly clientsMax: number;
  private latest: { readonly event: string; readonly data: unknown } | undefined;
  private closed = false;

  constructor(clientsMax = CLIENTS_MAX) {
    this.clientsMax = clientsMax;
  }

  get size(): number {
    return this.clients.size;
  }

  /** Replaces the latest event and hands it to everybody who can take it now. */
  push(event: string, data: unknown): void {
    if (this.closed) return;
    this.latest = { event, data };
    if (this.clients.size === 0) return;
    const frame = frameOf(event, data);
    for (const client of this.clients) if (!client.writableNeedDrain) client.write(frame);
  }

  /** Adds a watcher until it leaves or the hub closes; one too many is told to come back later. */
  async join(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.closed || this.clients.size >= this.clientsMax)
      return send(
        request,
        response,
        refusal(503, 'busy', `All ${this.clientsMax} event streams are taken.`, { 'retry-after': '10' }),
      );
    response.writeHead(200, {
      ...SECURITY_HEADERS,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      // Some reverse proxies hold back what they take for a slow download.
      'x-accel-buffering': 'no',
    });
    if (request.method === 'HEAD') {
      response.end();
      return;
    }
    this.clients.add(response);
    response.on('close', () => this.clients.delete(response));
    response.write(`retry: ${RETRY_MS}\n\n${this.latest ? frameOf(this.latest.event, this.latest.data) : ''}`);
  }

  /** Ends every stream. Idempotent; nobody joins afterwards. */
  close(): void {
    this.closed = true;
    for (const client of this.clients) client.end();
  }
}

function frameOf(event: string, data: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
