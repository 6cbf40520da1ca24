import { isIP } from 'node:net';
import { HoldfastError } from '../lib/errors.js';

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/**
 * `127.0.0.1:8080`, `[::1]:8080` or `plc-gw.local:8080`; port 0 asks for any free one. The host is required, because a
 * forgotten one would mean every interface of the machine. Throws `config.invalid`.
 */
export function parseListenAddress(text: string): ListenAddress {
  const match = /^(?:\[([^\]]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > 65_535 || (match?.[1] !== undefined && isIP(host) !== 6))
    throw new HoldfastError('config.invalid', `"${text}" is not an address to listen on`, {
      values: { listen: text },
      hint: 'Write host and port, such as 127.0.0.1:8080 or [::1]:8080.',
    });
  return { host, port };
}

/** As it stands in a URL. */
export function formatAddress({ host, port }: ListenAddress): string {
  return `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/**
 * Whether a browser that sends this Host header reached us under a name that nobody else can point at us. A web site may
 * resolve its own name to 127.0.0.1 and read a loopback server as if it were itself; it cannot do that to an address.
 */
export function isUnforgeableHost(header: string | undefined): boolean {
  if (header === undefined) return false;
  const name = header.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
  return isIP(name) !== 0 || name === 'localhost';
}
