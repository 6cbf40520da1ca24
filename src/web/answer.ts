import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** What a route gives back. */
export interface Answer {
  readonly status: number;
  /** The media type, with its charset. */
  readonly type: string;
  readonly body: string | Buffer;
  /** Set for what only changes with a new release; without it nothing is kept by the browser. */
  readonly etag?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Below this the gzip header costs more than it saves, and one packet carries it anyway. */
const GZIP_BYTES_MIN = 1_400;

/**
 * Nothing is loaded from anywhere else, nothing inline runs, nobody frames the page, and no other site may embed what we
 * answer. Sent with everything, so that a JSON answer opened as a document is as harmless as the page.
 */
export const SECURITY_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

const compress = promisify(gzip);

/** `value` as JSON. NaN and infinities become null. */
export function json(value: unknown, status = 200): Answer {
  return { status, type: 'application/json; charset=utf-8', body: `${JSON.stringify(value)}\n` };
}

/** A refusal, with a word for programs and a sentence for people. */
export function refusal(status: number, error: string, message: string, headers: Record<string, string> = {}): Answer {
  return { ...json({ error, message }, status), headers };
}

/** Writes an answer: compressed when that pays, without its body for HEAD, as 304 when the browser has it already. */
export async function send(request: IncomingMessage, response: ServerResponse, answer: Answer): Promise<void> {
  const fresh = answer.etag !== undefined && request.headers['if-none-match'] === answer.etag;
  let body = typeof answer.body === 'string' ? Buffer.from(answer.body) : answer.body;
  response.setHeaders(new Map(Object.entries({ ...SECURITY_HEADERS, ...answer.headers })));
  response.setHeader('cache-control', answer.etag === undefined ? 'no-store' : 'no-cache');
  if (answer.etag !== undefined) response.setHeader('etag', answer.etag);
  if (fresh) {
    response.writeHead(304).end();
    return;
  }
  response.setHeader('content-type', answer.type);
  if (body.length >= GZIP_BYTES_MIN) {
    response.setHeader('vary', 'accept-encoding');
    if (/\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))) {
      body = await compress(body);
      response.setHeader('content-encoding', 'gzip');
    }
  }
  response.setHeader('content-length', body.length);
  response.writeHead(answer.status).end(request.method === 'HEAD' ? undefined : body);
}
