/**
 * Batches by HTTP POST: one body is one batch, and the answer comes after the consumer's commit. Several requests are under
 * way at once on connections that are kept; the replayer deletes in order whatever the order of the answers.
 *
 * | status                    | means                                                                             |
 * | ------------------------- | --------------------------------------------------------------------------------- |
 * | 2xx with a statement      | taken, if the statement covers the batch (see wire/ack.ts); otherwise held          |
 * | 400, 413, 415, 422        | this batch is not taken, whatever happens: it is halved down to the row that is bad |
 * | 401, 403                  | not allowed: held, and no batch's fault                                            |
 * | 429, 503                  | later: held, for as long as `Retry-After` says                                     |
 * | other 5xx, 408, no answer | the link is lost: everything goes again                                            |
 * | anything else             | held: there is no ingest at this address                                           |
 */
import { type ClientRequest, Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { readTlsFiles, type TlsFiles } from '../lib/dial.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import type { Source } from '../model/row.js';
import { ACK_BYTES_MAX, covers, parseAck } from '../wire/ack.js';
import { BATCH_CONTENT_TYPE } from '../wire/batch.js';
import type { BatchFormat } from './batcher.js';
import type { BatchAbout, Upstream, UpstreamLimits, UpstreamLink, Verdict } from './upstream.js';

export interface HttpUpstreamOptions {
  /** `http://` or `https://`, with the path of the endpoint. */
  readonly url: string;
  /** Asked at every connection, so that a token that was changed works at the next one. */
  readonly token?: (() => string) | undefined;
  readonly tls?: TlsFiles | undefined;
  readonly source: Source;
  readonly format: BatchFormat;
  readonly gzip: boolean;
  readonly inFlightMax: number;
  readonly connectTimeoutMs: number;
}

const CONTENT_TYPES: Readonly<Record<BatchFormat, string>> = {
  columns: BATCH_CONTENT_TYPE,
  'rows-json': 'application/json',
  'rows-msgpack': 'application/msgpack',
};
const BATCH_REFUSED = new Set([400, 413, 415, 422]);
const FORBIDDEN = new Set([401, 403]);
const LATER = new Set([429, 503]);
const TIMEOUT = 408;
/** Whoever answers so to a GET has nothing against POST. */
const GET_UNKNOWN = new Set([404, 405, 501]);
/** The peer is asked before anything is sent, so an answer that is no statement may be a page for people. */
const ANSWER_BYTES_MAX = Math.max(ACK_BYTES_MAX, 64 * 1024);
/** The configured size of a batch is the limit; HTTP itself names none. */
const PAYLOAD_BYTES_MAX = 256 * 1024 * 1024;
/** How much of a foreign answer is shown to the operator. */
const SHOWN_LENGTH_MAX = 120;

interface Answer {
  readonly status: number;
  readonly body: Buffer;
  readonly retryAfterMs: number;
}

export class HttpUpstream implements Upstream {
  private readonly options: HttpUpstreamOptions;

  constructor(options: HttpUpstreamOptions) {
    this.options = options;
  }

  get url(): string {
    return this.options.url;
  }

  async connect(signal: AbortSignal): Promise<UpstreamLink> {
    const link = new HttpLink(this.options);
    const abort = () => link.destroy('the gateway is stopping');
    signal.addEventListener('abort', abort, { once: true });
    try {
      await link.open();
      return link;
    } catch (error) {
      link.destroy(messageOf(error));
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }
}

class HttpLink implements UpstreamLink {
  readonly closed: Promise<string>;
  readonly limits: UpstreamLimits;
  forbidden = false;
  private readonly options: HttpUpstreamOptions;
  private readonly agent: HttpAgent;
  private readonly headers: Readonly<Record<string, string>>;
  private readonly requests = new Set<ClientRequest>();
  private why: string | undefined;
  private finish: (why: string) => void = () => {};

  constructor(options: HttpUpstreamOptions) {
    const { url, token, tls = {}, inFlightMax } = options;
    this.options = options;
    this.limits = { inFlightMax, payloadBytesMax: PAYLOAD_BYTES_MAX, announced: false };
    this.closed = new Promise((resolve) => {
      this.finish = resolve;
    });
    const keep = { keepAlive: true, maxSockets: inFlightMax, noDelay: true };
    const { servername } = tls;
    this.agent = url.startsWith('https:')
      ? new HttpsAgent({ ...keep, ...readTlsFiles(tls), ...(servername ? { servername } : {}), minVersion: 'TLSv1.2' })
      : new HttpAgent(keep);
    this.headers = token ? { authorization: `Bearer ${token()}` } : {};
  }

  /** Asks whether somebody is there and lets this gateway in. Throws `upstream.lost` or `upstream.refused`. */
  async open(): Promise<void> {
    const { url, connectTimeoutMs } = this.options;
    const timer = setTimeout(() => this.destroy(`no answer within ${connectTimeoutMs} ms`), connectTimeoutMs);
    try {
      const { status, retryAfterMs, body } = await this.ask('GET', {});
      if (status < 300 || GET_UNKNOWN.has(status)) return;
      const code = LATER.has(status) || status >= 500 || status === TIMEOUT ? 'upstream.lost' : 'upstream.refused';
      const message = `${url} answered ${status}${shown(body)}`;
      throw new HoldfastError(code, message, { values: { status, retryAfterMs } });
    } finally {
      clearTimeout(timer);
    }
  }

  async send(payload: Uint8Array, about: BatchAbout): Promise<Verdict> {
    const { source, format, gzip } = this.options;
    const answer = await this.ask(
      'POST',
      {
        'content-type': CONTENT_TYPES[format],
        ...(gzip ? { 'content-encoding': 'gzip' } : {}),
        'content-length': String(payload.length),
        'holdfast-batch': `${source.gateway} ${source.epoch} ${about.first} ${about.last}`,
      },
      payload,
    );
    return this.verdict(answer, about);
  }

  async close(): Promise<void> {
    this.destroy('closed');
  }

  destroy(why: string): void {
    this.why ??= why;
    const error = new Error(this.why);
    for (const request of this.requests) request.destroy(error);
    this.agent.destroy();
    this.finish(this.why);
  }

  private verdict({ status, body, retryAfterMs }: Answer, about: BatchAbout): Verdict {
    const cause = `${this.options.url} answered ${status}${shown(body)}`;
    if (status >= 200 && status < 300) return this.statement(body, about, cause);
    if (BATCH_REFUSED.has(status)) return { kind: 'refused', cause };
    if (FORBIDDEN.has(status)) {
      this.forbidden = true;
      return { kind: 'held', cause };
    }
    if (LATER.has(status)) return { kind: 'held', cause, retryAfterMs };
    if (status >= 500 || status === TIMEOUT) {
      this.destroy(cause);
      throw new HoldfastError('upstream.lost', cause);
    }
    return { kind: 'held', cause };
  }

  /** A proxy or a login page says 200, too; only a statement about these very seqs lets them go. */
  private statement(body: Buffer, { first, last }: BatchAbout, cause: string): Verdict {
    const ack = parseAck(body);
    const { gateway, epoch } = this.options.source;
    if (!ack) return { kind: 'held', cause: `${cause}, which acknowledges nothing` };
    if (ack.source.gateway !== gateway || ack.source.epoch !== epoch)
      return { kind: 'held', cause: `${cause}, which is about another gateway or another life of its spool` };
    if (!covers(ack, { from: first, to: last }))
      return { kind: 'held', cause: `${cause}, which does not cover seqs ${first} to ${last}` };
    return { kind: 'taken' };
  }

  private ask(method: 'GET' | 'POST', headers: Record<string, string>, body?: Uint8Array): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => {
        // One connection that breaks is the line that breaks: everything in flight goes again on the next link.
        this.destroy(messageOf(error));
        reject(new HoldfastError('upstream.lost', this.why ?? messageOf(error), { cause: error }));
      };
      if (this.why !== undefined) {
        reject(new HoldfastError('upstream.lost', this.why));
        return;
      }
      const { url } = this.options;
      const send = url.startsWith('https:') ? requestHttps : requestHttp;
      const request = send(url, { method, agent: this.agent, headers: { ...this.headers, ...headers } });
      this.requests.add(request);
      request.on('close', () => this.requests.delete(request));
      request.on('error', fail);
      request.on('response', (response) => {
        read(response).then(resolve, fail);
      });
      request.end(body);
    });
  }
}

async function read(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) throw new Error(`an answer of more than ${ANSWER_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  const { statusCode = 0, headers } = response;
  return { status: statusCode, body: Buffer.concat(chunks), retryAfterMs: retryAfterMs(headers['retry-after']) };
}

/** Seconds, or a date [RFC 9110 §10.2.3]. */
function retryAfterMs(header: string | undefined): number {
  if (header === undefined) return 0;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}

/** The beginning of an answer that is meant for people, in one line. */
function shown(body: Buffer): string {
  const text = body
    .toString()
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim();
  return text === '' ? '' : `: ${text.slice(0, SHOWN_LENGTH_MAX)}`;
}
