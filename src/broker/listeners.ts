/** The doors: MQTT over TCP, over WebSocket [MQTT5 6], and both over TLS. */
import { createServer as createHttpServer, type Server as HttpServer, type IncomingMessage } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type DropArgument, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createServer as createTlsServer, TLSSocket } from 'node:tls';
import { createWebSocketStream, WebSocketServer } from 'ws';
import { HoldfastError, systemCodeOf } from '../lib/errors.js';
import type { Log } from '../lib/log.js';
import type { Entrance } from './access.js';
import { commonNameOf, subjectOf } from './certificate-name.js';
import type { BrokerLimits } from './limits.js';
import type { TlsOptions } from './tls-files.js';
import { TlsKeeper } from './tls-keeper.js';

export interface ListenerOptions {
  /** `mqtt:`, `mqtts:`, `ws:` or `wss:`, `//host:port`, for WebSocket with a path; port 0 takes a free one. */
  readonly url: string;
  /** Lets clients in that give no credentials. */
  readonly anonymous?: boolean;
  /** With `mqtts:` and `wss:`, and only with them. */
  readonly tls?: TlsOptions | undefined;
  /** Web pages that may connect, as their browser names them (`https://hmi.plant`), or `*`. See `mayConnect`. */
  readonly origins?: readonly string[] | undefined;
}

export interface Listener {
  /** With the port that was bound. */
  readonly url: string;
  /** Reads its certificates anew; they take effect for new connections when the returned function is called. */
  prepare(): Promise<() => void>;
  /** Takes no new connections; those that exist are their owner's. */
  close(): Promise<void>;
}

/** What a door does with those who come to it. */
export interface Door {
  onConnection(stream: Duplex, entrance: Entrance): void;
  /** Somebody found all places taken and is gone already. */
  onDropped(address: string): void;
}

type Take = (stream: Duplex, socket: Socket) => void;

interface Scheme {
  readonly port: number;
  readonly tls: boolean;
  readonly webSocket: boolean;
}

const SCHEMES: Readonly<Record<string, Scheme>> = {
  'mqtt:': { port: 1883, tls: false, webSocket: false },
  'mqtts:': { port: 8883, tls: true, webSocket: false },
  'ws:': { port: 80, tls: false, webSocket: true },
  'wss:': { port: 443, tls: true, webSocket: true },
};
/** Finds peers whose machine is gone, for clients that asked for no keepalive. */
const TCP_KEEPALIVE_MS = 60_000;
const SUBPROTOCOLS = ['mqtt', 'mqttv3.1'];

/** Throws `listen.failed`, or `config.invalid` when the TLS files cannot be used. */
export async function listen(options: ListenerOptions, limits: BrokerLimits, log: Log, door: Door): Promise<Listener> {
  const url = new URL(options.url);
  const scheme = SCHEMES[url.protocol];
  if (!scheme || scheme.tls !== (options.tls !== undefined)) {
    const message = scheme ? 'mqtts: and wss: need tls, and only they' : 'cannot be listened on';
    throw new HoldfastError('listen.failed', `${options.url}: ${message}`, { values: { url: options.url } });
  }
  const keeper = options.tls && (await TlsKeeper.open(options.tls, options.url, log));
  const server = serverFor(scheme, keeper, limits);
  // The broker counts its clients, but not who has not become one yet.
  server.maxConnections = limits.clientsMax;
  server.on('drop', (dropped?: DropArgument) => door.onDropped(addressOf(dropped ?? {})));
  const strangers = strangersOf(server);
  const take: Take = (stream, socket) => {
    strangers.delete(keyOf(socket));
    door.onConnection(stream, entranceOf(options, socket));
  };
  if (scheme.webSocket)
    acceptWebSockets(server as HttpServer, url.pathname, options.origins, limits.packetBytesMax, take);
  else server.on(scheme.tls ? 'secureConnection' : 'connection', (socket: Socket) => take(socket, socket));
  keeper?.serve(server);
  try {
    await bind(server, url.hostname.replace(/^\[|\]$/g, ''), url.port === '' ? scheme.port : Number(url.port), options);
  } catch (error) {
    keeper?.close();
    throw error;
  }
  const { port } = server.address() as AddressInfo;
  return {
    // The port is written out in any case: URL leaves out the one that a scheme has anyway.
    url: `${url.protocol}//${url.hostname}:${port}${url.pathname === '/' ? '' : url.pathname}`,
    prepare: async () => (await keeper?.prepare()) ?? (() => {}),
    close: async () => {
      keeper?.close();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of strangers.values()) socket.destroy();
      await closed;
    },
  };
}

function entranceOf({ anonymous, tls }: ListenerOptions, socket: Socket): Entrance {
  const nameOf = tls?.certificateName === 'subject' ? subjectOf : commonNameOf;
  const userOf = () => (socket instanceof TLSSocket ? nameOf(socket) : null);
  return {
    anonymousAllowed: anonymous === true,
    address: addressOf(socket),
    certificateUser: tls?.userFromCertificate ? userOf() : undefined,
  };
}

/** An IPv4 client of an IPv6 socket is the same client. */
function addressOf({ remoteAddress = '' }: { readonly remoteAddress?: string | undefined }): string {
  return remoteAddress.replace(/^::ffff:/, '');
}

function serverFor({ tls, webSocket }: Scheme, keeper: TlsKeeper | undefined, limits: BrokerLimits): Server {
  const tcp = { noDelay: true, keepAlive: true, keepAliveInitialDelay: TCP_KEEPALIVE_MS };
  const secure = { ...tcp, ...keeper?.serverOptions, handshakeTimeout: limits.connectTimeoutMs };
  if (webSocket) return tls ? createHttpsServer(secure) : createHttpServer(tcp);
  return tls ? createTlsServer(secure) : createServer(tcp);
}

/** `packetBytesMax` bounds a WebSocket message, which may hold several packets or part of one. */
function acceptWebSockets(
  server: HttpServer,
  path: string,
  origins: readonly string[] | undefined,
  packetBytesMax: number,
  take: Take,
): void {
  server.on('request', (_request, response) => {
    response.writeHead(426, { Upgrade: 'websocket', 'Content-Type': 'text/plain' }).end('MQTT over WebSocket only\n');
  });
  const sockets = new WebSocketServer({
    server,
    ...(path === '/' ? {} : { path }),
    maxPayload: packetBytesMax,
    perMessageDeflate: false,
    clientTracking: false,
    // The client names the protocol, and the server answers with it [MQTT-6.0.0-3, MQTT-6.0.0-4].
    verifyClient: ({ req: { headers } }: { req: IncomingMessage }, answer: (ok: boolean, status?: number) => void) => {
      const offered = (headers['sec-websocket-protocol'] ?? '').split(/\s*,\s*/);
      if (!mayConnect(headers.origin, headers.host, origins)) answer(false, 403);
      else answer(namedIn(offered) !== undefined, 400);
    },
    handleProtocols: (offered) => namedIn([...offered]) ?? false,
  });
  sockets.on('connection', (socket, request) => {
    const stream = createWebSocketStream(socket);
    // MQTT travels in binary frames, and whoever sends another is cut off [MQTT-6.0.0-1].
    socket.prependListener('message', (_bytes, isBinary) => {
      if (!isBinary) stream.destroy();
    });
    take(stream, request.socket);
  });
  // The HTTP server's own errors are answered in `bind`.
  sockets.on('error', () => {});
}

/**
 * Any page that a browser in the plant opens could connect to this broker in the name of whoever sits there. Without
 * `origins` only pages of this very host may; programs, which send no origin, always.
 */
function mayConnect(
  origin: string | undefined,
  host: string | undefined,
  origins: readonly string[] | undefined,
): boolean {
  if (origin === undefined) return true;
  if (origins) return origins.includes('*') || origins.includes(origin);
  return (
    URL.canParse(origin) &&
    URL.canParse(`ws://${host}`) &&
    new URL(origin).hostname === new URL(`ws://${host}`).hostname
  );
}

function namedIn(offered: readonly string[]): string | undefined {
  return SUBPROTOCOLS.find((name) => offered.includes(name));
}

/**
 * Connections that nobody has taken yet: in their TLS handshake, or before the upgrade to WebSocket. Nobody else knows of
 * them, and the server would wait for them when it closes.
 */
function strangersOf(server: Server): Map<string, Socket> {
  const strangers = new Map<string, Socket>();
  server.on('connection', (socket) => {
    const key = keyOf(socket);
    strangers.set(key, socket);
    socket.once('close', () => {
      if (strangers.get(key) === socket) strangers.delete(key);
    });
  });
  return strangers;
}

/** The same for a socket and the TLS around it. */
function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

async function bind(server: Server, host: string, port: number, { url }: ListenerOptions): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      const code = systemCodeOf(cause);
      const hint =
        code === 'EADDRINUSE'
          ? 'another broker is already listening there: stop it, or give this listener another port'
          : 'check the address and the right to listen on that port';
      reject(
        new HoldfastError('listen.failed', `Cannot listen on ${url}: ${cause.message}`, {
          values: { url, code },
          cause,
          hint,
        }),
      );
    });
    server.listen(port, host, resolve);
  });
  // A connection that cannot be taken (no file descriptors) must not end the process.
  server.on('error', () => {});
}
