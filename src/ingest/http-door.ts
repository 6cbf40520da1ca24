/**
 * Batches by HTTP: `POST` of one batch as the body, answered after the commit with what the ledger holds (see wire/ack.ts).
 * `GET` on the same path tells a gateway whether it is let in. A batch that cannot be taken is kept aside first and then
 * answered with 400 or 422; while nothing can be stored the answer is 503 with `Retry-After`.
 *
 * Everything a stranger can make it hold is bounded: connections, header bytes, the time for a request's head and body, the
 * size of a body, and the bytes of all bodies together. Without a right token no body is read.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttps, type Server as HttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { readTlsFiles } from '../lib/dial.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import { type Answer, json, refusal, send } from '../web/answer.js';
import { formatAddress, type ListenAddress, parseListenAddress } from '../web/listen-address.js';
import { encodeAck } from '../wire/ack.js';
import type { Receipt } from './receipt.js';

export interface HttpDoorOptions {
  /** `HOST:PORT`; port 0 takes any free one. */
  readonly listen: string;
  readonly path: string;
  /** The bearer tokens that are let in, asked now and then so that a changed one works; undefined: everybody is. */
  readonly tokens?: (() => readonly string[]) | undefined;
  /** PEM files; absent: HTTP without TLS. */
  readonly tls?: { readonly cert: string; readonly key: string } | undefined;
  readonly bodyBytesMax: number;
  /** For a whole request, from its first byte to its last; default 30 s. */
  readonly requestTimeoutMs?: number;
  /** How often is looked for a renewed certificate; default a minute. */
  readonly tlsLookMs?: number;
}

type Receive = (bytes: Uint8Array) => Promise<Receipt>;

/** Thousands of gateways, each with a connection or a few. */
const CONNECTIONS_MAX = 10_000;
const TLS_MIN = 'TLSv1.2';
const HEADER_BYTES_MAX = 8 * 1024;
const HEADERS_WAIT_MS = 5_000;
const REQUEST_WAIT_MS = 30_000;
/** How exact the two above are. */
const CHECK_EVERY_MS = 1_000;
/** A gateway sends at least every few seconds; one that is silent connects anew. */
const KEEP_ALIVE_MS = 60_000;
/** Of all bodies that are being read or stored; above it gateways are asked to wait. */
const BODIES_BYTES_MAX = 256 * 1024 * 1024;
const RETRY_AFTER_S = 5;
const TOKENS_KEPT_MS = 5_000;
const TLS_LOOK_MS = 60_000;
const ENCODINGS = new Set([undefined, '', 'identity', 'gzip']);
const UNREADABLE = new Set(['wire.malformed']);

export class HttpDoor {
  private readonly options: HttpDoorOptions;
  private readonly receive: Receive;
  private readonly log: Log;
  private readonly server: Server;
  private readonly address: ListenAddress;
  private readonly complaints = new RateLimit();
  private port = 0;
  private bodiesBytes = 0;
  private tokens: { readonly hashes: readonly Buffer[]; readonly at: number } | undefined;
  private tlsTimer: NodeJS.Timeout | undefined;
  private closing: Promise<void> | undefined;

  private constructor(options: HttpDoorOptions, receive: Receive, log: Log) {
    this.options = options;
    this.receive = receive;
    this.log = log;
    this.address = parseListenAddress(options.listen);
    const { tls, requestTimeoutMs = REQUEST_WAIT_MS } = options;
    const limits = {
      maxHeaderSize: HEADER_BYTES_MAX,
      headersTimeout: Math.min(HEADERS_WAIT_MS, requestTimeoutMs),
      requestTimeout: requestTimeoutMs,
      connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, requestTimeoutMs),
      keepAliveTimeout: KEEP_ALIVE_MS,
      noDelay: true,
    };
    this.server = tls ? createHttps({ ...limits, ...readTlsFiles(tls), minVersion: TLS_MIN }) : createHttp(limits);
    this.server.maxConnections = CONNECTIONS_MAX;
  }

  /** Throws `config.invalid` for an address, a token or a certificate that is none, `listen.failed` for a port that is taken. */
  static async open(options: HttpDoorOptions, receive: Receive, log: Log): Promise<HttpDoor> {
    const door = new HttpDoor(options, receive, log);
    door.tokenHashes();
    await door.listen();
    log.info({ url: door.url }, 'Batches are taken by HTTP');
    return door;
  }

  get url(): string {
    const scheme = this.options.tls ? 'https' : 'http';
    return `${scheme}://${formatAddress({ host: this.address.host, port: this.port })}${this.options.path}`;
  }

  /** Takes no more connections, and gives what is in progress `budgetMs`. Idempotent. */
  close(budgetMs: number): Promise<void> {
    this.closing ??= this.shut(budgetMs);
    return this.closing;
  }

  private async listen(): Promise<void> {
    this.server.on('request', (request, response) => void this.handle(request, response));
    this.server.listen({ ...this.address, exclusive: true });
    try {
      await once(this.server, 'listening');
    } catch (cause) {
      throw new HoldfastError(
        'listen.failed',
        `Cannot listen on ${formatAddress(this.address)} for batches: ${messageOf(cause)}`,
        { cause, hint: 'Another program may have this port; see ingest.http.listen.' },
      );
    }
    this.port = (this.server.address() as AddressInfo).port;
    this.server.on('error', (error) => this.log.error({ error: messageOf(error) }, 'The HTTP endpoint failed'));
    const { tls, tlsLookMs = TLS_LOOK_MS } = this.options;
    if (tls) this.watch(tls, tlsLookMs);
  }

  /** A renewed certificate needs no restart; connections that exist stay as they are. */
  private watch(tls: { readonly cert: string; readonly key: string }, everyMs: number): void {
    const server = this.server as HttpsServer;
    let used = readTlsFiles(tls);
    this.tlsTimer = setInterval(() => {
      try {
        const files = readTlsFiles(tls);
        if (files.cert?.equals(used.cert as Buffer) && files.key?.equals(used.key as Buffer)) return;
        server.setSecureContext({ ...files, minVersion: TLS_MIN });
        used = files;
        this.log.info({ ...tls }, 'A changed certificate is in use');
      } catch (error) {
        // Half of a pair may have been written by now; the old one stays.
        const held = this.complaints.pass('tls');
        if (held !== undefined)
          this.log.warn({ ...tls, error: messageOf(error), held }, 'The certificate cannot be used');
      }
    }, everyMs);
  }

  private async shut(budgetMs: number): Promise<void> {
    clearInterval(this.tlsTimer);
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.server.closeIdleConnections();
    const cut = setTimeout(() => this.server.closeAllConnections(), budgetMs);
    await closed;
    clearTimeout(cut);
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A request that breaks off is its gateway's loss: nothing was acknowledged.
    request.on('error', () => {});
    response.on('error', () => {});
    try {
      await send(request, response, this.refuse(request) ?? (await this.answer(request)));
    } catch (error) {
      const held = this.complaints.pass(messageOf(error));
      if (held !== undefined) this.log.error({ error: messageOf(error), held }, 'A batch could not be answered');
      if (response.headersSent || !request.complete) response.destroy();
      else await send(request, response, unavailable('The batch could not be stored; send it again.'));
    }
  }

  /** What needs no look at the body. The connection ends, so that the body need not be read. */
  private refuse({ method, url = '', headers }: IncomingMessage): Answer | undefined {
    const end = { connection: 'close' };
    if (url.split('?', 1)[0] !== this.options.path) return refusal(404, 'not-found', 'There is nothing here.', end);
    if (!this.letsIn(headers.authorization)) {
      const held = this.complaints.pass('token');
      if (held !== undefined) this.log.warn({ held }, 'Batches without a right token are not taken');
      return refusal(401, 'token', 'The bearer token is missing or wrong.', { ...end, 'www-authenticate': 'Bearer' });
    }
    if (method !== 'GET' && method !== 'POST')
      return refusal(405, 'method', 'Batches are POSTed.', { ...end, allow: 'GET, POST' });
    if (!ENCODINGS.has(headers['content-encoding']?.toLowerCase()))
      return refusal(415, 'encoding', 'A body is encoded with gzip or not at all.', end);
    const length = Number(headers['content-length'] ?? 0);
    if (length > this.options.bodyBytesMax) return this.tooLarge();
    if (this.bodiesBytes + length > BODIES_BYTES_MAX) return unavailable('Too much is under way; wait a little.', end);
    return undefined;
  }

  private async answer(request: IncomingMessage): Promise<Answer> {
    if (request.method === 'GET') return json({ ok: true });
    const chunks: Buffer[] = [];
    let bytes = 0;
    try {
      // The rest of a body that is too large is not read, but its sender gets an answer.
      for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        this.bodiesBytes += chunk.length;
        if (bytes > this.options.bodyBytesMax) return this.tooLarge();
        chunks.push(chunk);
      }
      return answerOf(await this.receive(Buffer.concat(chunks)));
    } finally {
      this.bodiesBytes -= bytes;
    }
  }

  private tooLarge(): Answer {
    const message = `A batch has at most ${this.options.bodyBytesMax} bytes here.`;
    return refusal(413, 'size', message, { connection: 'close' });
  }

  private letsIn(authorization: string | undefined): boolean {
    const hashes = this.tokenHashes();
    if (!hashes) return true;
    const token = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
    if (token === undefined) return false;
    const given = hashOf(token);
    // All of them are compared, so that the time tells nothing.
    return hashes.filter((hash) => timingSafeEqual(hash, given)).length > 0;
  }

  private tokenHashes(): readonly Buffer[] | undefined {
    const { tokens } = this.options;
    if (!tokens) return undefined;
    const now = performance.now();
    if (!this.tokens || now - this.tokens.at > TOKENS_KEPT_MS) this.tokens = { hashes: tokens().map(hashOf), at: now };
    return this.tokens.hashes;
  }
}

function answerOf(receipt: Receipt): Answer {
  if (receipt.kind === 'stored') return { ...json(null), body: encodeAck(receipt.ack()) };
  const status = UNREADABLE.has(receipt.code) ? 400 : 422;
  return refusal(status, receipt.code, `${receipt.reason} It is kept aside.`);
}

function unavailable(message: string, headers: Record<string, string> = {}): Answer {
  return refusal(503, 'later', message, { ...headers, 'retry-after': String(RETRY_AFTER_S) });
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
