import { isIPv4, isIPv6 } from 'node:net';
import * as z from 'zod';
import { assert } from '../lib/assert.js';

/** The port that a URL without one means. */
const DEFAULT_PORT = {
  mqtt: 1883,
  mqtts: 8883,
  ws: 80,
  wss: 443,
  http: 80,
  https: 443,
  tcp: 502,
  'rtu+tcp': 502,
} as const;
type Scheme = keyof typeof DEFAULT_PORT;

export interface Endpoint {
  readonly scheme: Scheme;
  /** A name or an IP address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
}

interface UrlRules {
  /** Port 0, any free port: for what we listen on, never for what we connect to. */
  readonly freePort?: boolean;
  /** A path behind the host, which WebSocket and HTTP servers have. */
  readonly path?: boolean;
}

/** A URL with one of the schemes, a host, and no credentials: they belong under `username` and `password`. */
export function url(schemes: readonly Scheme[], rules: UrlRules = {}) {
  return z.string().superRefine((text, context) => {
    const fault = urlFault(text, schemes, rules);
    if (fault) context.addIssue({ code: 'custom', message: fault });
  });
}

/** `HOST:PORT` to listen on; IPv6 in brackets, port 0 for any free port. */
export const listenAddress = z.string().superRefine((text, context) => {
  const parsed = /:\d+$/.test(text) && !text.includes('://') ? parse(`tcp://${text}`) : undefined;
  if (!parsed || /[/?#@]/.test(text))
    context.addIssue({ code: 'custom', message: `expected HOST:PORT, like 127.0.0.1:8080 or [::1]:8080` });
});

/** Host and port of a URL or listen address of a checked config. */
export function endpointOf(address: string): Endpoint {
  const endpoint = tryEndpoint(address);
  assert(endpoint, 'the address was checked', { address });
  return endpoint;
}

/** The same for an address that nobody checked yet. */
export function tryEndpoint(address: unknown): Endpoint | undefined {
  if (typeof address !== 'string') return undefined;
  const parsed = parse(address.includes('://') ? address : `tcp://${address}`);
  if (!parsed) return undefined;
  const scheme = parsed.protocol.slice(0, -1) as Scheme;
  const port = parsed.port === '' ? DEFAULT_PORT[scheme] : Number(parsed.port);
  return { scheme, host: parsed.hostname.replace(/^\[(.*)\]$/, '$1'), port };
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}

/** Whether two listeners get in each other's way. */
export function collide(a: Endpoint, b: Endpoint): boolean {
  if (a.port === 0 || a.port !== b.port) return false;
  return a.host === b.host || isWildcard(a.host) || isWildcard(b.host);
}

/** Whether a connection to `target` ends at `listener`, as far as the addresses alone tell. */
export function reaches(target: Endpoint, listener: Endpoint): boolean {
  if (target.port !== listener.port) return false;
  if (target.host === listener.host) return true;
  return isLoopback(target.host) && (isLoopback(listener.host) || isWildcard(listener.host));
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || (isIPv6(host) && /^[0:]+$/.test(host));
}

/** What is wrong with a URL, or undefined. */
export function urlFault(text: string, schemes: readonly Scheme[], rules: UrlRules): string | undefined {
  const wanted = schemes.map((scheme) => `${scheme}://`).join(', ');
  const expected = `expected a URL like ${schemes[0]}://HOST:PORT`;
  const parsed = parse(text);
  // The text is not repeated: it may hold a password.
  if (!parsed || parsed.hostname === '') return expected;
  if (!schemes.includes(parsed.protocol.slice(0, -1) as Scheme))
    return `${expected}, with ${schemes.length === 1 ? '' : 'one of '}${wanted}; found ${parsed.protocol}//`;
  if (parsed.username !== '' || parsed.password !== '')
    return 'must not contain credentials; write them as username and password';
  if (parsed.port === '0' && !rules.freePort) return 'must name a port; 0 is only for listeners';
  const path = parsed.pathname.replace(/^\/$/, '');
  if (path !== '' && !(rules.path && /^(wss?|https?):$/.test(parsed.protocol)))
    return `must not have a path, found ${path}`;
  return parsed.hash === '' && (parsed.search === '' || rules.path)
    ? undefined
    : 'must end behind the port or the path';
}

function parse(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}
