import { readFileSync } from 'node:fs';
import { connect as connectTcp, isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { createWebSocketStream, WebSocket } from 'ws';
import { HoldfastError } from './errors.js';

export interface TlsFiles {
  /** Paths of PEM files. */
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** The name the peer's certificate must carry, when it is not the host of the URL. */
  readonly servername?: string | undefined;
}

/** The files' contents, as `tls.connect` takes them. Read at every connection, so that a renewed certificate is used. */
export function readTlsFiles({ ca, cert, key }: TlsFiles): { ca?: Buffer; cert?: Buffer; key?: Buffer } {
  return {
    ...(ca ? { ca: readFileSync(ca) } : {}),
    ...(cert ? { cert: readFileSync(cert) } : {}),
    ...(key ? { key: readFileSync(key) } : {}),
  };
}

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'mqtt:': 1883, 'mqtts:': 8883, 'ws:': 80, 'wss:': 443 };

/**
 * Opens a byte stream to `mqtt://`, `mqtts://`, `ws://` or `wss://`. Returns at once: a failure comes as the stream's
 * `error` and `close`. Small writes leave without waiting for more (Nagle is off); certificates are always verified.
 */
export function dial(url: string, tls: TlsFiles = {}): Duplex {
  const { protocol, hostname, port, href } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  const address = { host, port: Number(port) || (DEFAULT_PORTS[protocol] as number) };
  const files = readTlsFiles(tls);
  const servername = tls.servername ?? (isIP(host) ? undefined : host);
  switch (protocol) {
    case 'mqtt:':
      return connectTcp({ ...address, noDelay: true });
    case 'mqtts:': {
      const socket = connectTls({ ...address, ...files, ...(servername ? { servername } : {}), minVersion: 'TLSv1.2' });
      socket.setNoDelay(true);
      return socket;
    }
    case 'ws:':
    case 'wss:':
      return createWebSocketStream(new WebSocket(href, 'mqtt', files));
    default:
      throw new HoldfastError('config.invalid', `Cannot connect to ${url}: its scheme is not mqtt, mqtts, ws or wss`);
  }
}
