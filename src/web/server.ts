/**
 * A small read-only HTTP server: a table of exact paths, GET and HEAD, JSON and server-sent events.
 *
 * Everything a stranger can make it hold is bounded: connections, header bytes, the length of a URL, the time a request or
 * an idle socket may take, the number of event streams. Request bodies are refused, so there is nothing to parse. On a
 * loopback address it only answers to names that no web site can claim (see `isUnforgeableHost`).
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { HoldfastError, messageOf, systemCodeOf } from '../lib/errors.js';
import { type Log, RateLimit, silentLog } from '../lib/log.js';
import { type Answer, refusal, send } from './answer.js';
import { EventHub } from './event-hub.js';
import {
  formatAddress,
  isLoopback,
  isUnforgeableHost,
  type ListenAddress,
  parseListenAddress,
} from './listen-address.js';

/** Browsers open up to six each; the streams have their own, lower limit. */
const CONNECTIONS_MAX = 128;
/** Our longest legitimate request head, with a browser's cookies for the same host, is far below. */
const HEADER_BYTES_MAX = 8 * 1024;
const URL_LENGTH_MAX = 1_024;
const HEADERS_WAIT_MS = 5_000;
const REQUEST_WAIT_MS = 10_000;
/** A socket on which nothing moves for this long is gone; event streams move each second. */
const IDLE_MS = 30_000;
const KEEP_ALIVE_MS = 5_000;
/** What answers in progress get at `close()` before their sockets are cut. */
const CLOSE_GRACE_MS = 1_000;

export interface WebRequest {
  readonly query: URLSearchParams;
}

export type Handler = (request: WebRequest) => Answer | Promise<Answer>;

/** By exact path. A hub is a route of its own: whoever asks for it joins the stream. */
export type Routes = Readonly<Record<string, Handler | EventHub>>;

export interface WebServerOptions {
  /** `host:port`; port 0 takes any free one, and `url` tells which. */
  readonly listen: string;
  readonly routes: Routes;
  readonly log?: Log;
}

export class WebServer {
  private readonly server: Server;
  private readonly routes: ReadonlyMap<string, Handler | EventHub>;
  private readonly loopback: boolean;
  private readonly address: ListenAddress;
  private port = 0;
  private readonly log: Log;
  private readonly complaints = new RateLimit();
  private closing: Promise<void> | undefined;

  private constructor(options: WebServerOptions) {
    this.address = parseListenAddress(options.listen);
    this.loopback = isLoopback(this.address.host);
    this.routes = new Map(Object.entries(options.routes));
    this.log = options.log ?? silentLog;
    this.server = createServer({
      maxHeaderSize: HEADER_BYTES_MAX,
      headersTimeout: HEADERS_WAIT_MS,
      requestTimeout: REQUEST_WAIT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    });
    this.server.maxConnections = CONNECTIONS_MAX;
    this.server.timeout = IDLE_MS;
  }

  /** Resolves once the port is bound. Throws `config.invalid` for a bad address and `listen.failed` for a refused one. */
  static async open(options: WebServerOptions): Promise<WebServer> {
    const web = new WebServer(options);
    await web.listen();
    web.log.info({ url: web.url }, 'The web server listens');
    return web;
  }

  /** Where it can be reached, with the port really bound. */
  get url(): string {
    return `http://${formatAddress({ host: this.address.host, port: this.port })}`;
  }

  /** Ends every event stream, lets answers in progress finish within a second, frees the port. Idempotent. */
  close(): Promise<void> {
    this.closing ??= this.shut();
    return this.closing;
  }

  private async listen(): Promise<void> {
    this.server.on('request', (request, response) => void this.handle(request, response));
    this.server.listen({ ...this.address, exclusive: true });
    try {
      await once(this.server, 'listening');
    } catch (cause) {
      throw listenFailed(this.address, cause);
    }
    this.port = (this.server.address() as AddressInfo).port;
    this.server.on('error', (error) => this.log.error({ error: messageOf(error) }, 'The web server failed'));
  }

  private async shut(): Promise<void> {
    for (const route of this.routes.values()) if (route instanceof EventHub) route.close();
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.server.closeIdleConnections();
    const cut = setTimeout(() => this.server.closeAllConnections(), CLOSE_GRACE_MS);
    await closed;
    clearTimeout(cut);
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const [path = '', query] = (request.url ?? '').split('?', 2);
      const refused = this.refuse(request);
      const route = this.routes.get(path);
      if (refused) await send(request, response, refused);
      else if (route === undefined) await send(request, response, refusal(404, 'not-found', 'There is nothing here.'));
      else if (route instanceof EventHub) await route.join(request, response);
      else await send(request, response, await route({ query: new URLSearchParams(query) }));
    } catch (error) {
      this.fail(request, response, error);
    }
  }

  /** What can be refused without looking at the route. */
  private refuse({ method, url = '', headers }: IncomingMessage): Answer | undefined {
    const close = { connection: 'close' };
    if (method !== 'GET' && method !== 'HEAD')
      return refusal(405, 'read-only', 'Only GET and HEAD are answered.', { ...close, allow: 'GET, HEAD' });
    if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0)
      return refusal(413, 'body', 'A request has no body here.', close);
    if (url.length > URL_LENGTH_MAX)
      return refusal(414, 'url', `A URL has at most ${URL_LENGTH_MAX} characters.`, close);
    if (this.loopback && !isUnforgeableHost(headers.host))
      return refusal(421, 'host', 'This server answers to its address and to localhost only.', close);
    return undefined;
  }

  /** The cause goes to the log, not to a stranger. */
  private fail(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const held = this.complaints.pass(request.url ?? '');
    if (held !== undefined)
      this.log.error({ path: request.url, error: messageOf(error), held }, 'A web request failed');
    if (response.headersSent) response.destroy();
    else void send(request, response, refusal(500, 'internal', 'The answer could not be made; the log says why.'));
  }
}

const LISTEN_HINTS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'Another program has this port; stop it, or set web.listen to another one.',
  EACCES: 'Ports below 1024 need a privilege; choose a higher one for web.listen.',
  EADDRNOTAVAIL: 'No interface of this machine has this address; see web.listen.',
  ENOTFOUND: 'This name has no address; see web.listen.',
};

function listenFailed(address: ListenAddress, cause: unknown): HoldfastError {
  const code = systemCodeOf(cause) ?? '';
  const hint = LISTEN_HINTS[code];
  return new HoldfastError(
    'listen.failed',
    `Cannot listen on ${formatAddress(address)} for HTTP: ${messageOf(cause)}`,
    {
      values: { ...address, code },
      cause,
      ...(hint === undefined ? {} : { hint }),
    },
  );
}
