/** The doors: MQTT over TCP and over WebSocket [MQTT5 6]. */
import { createServer as createHttpServer, type Server as HttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createWebSocketStream, WebSocketServer } from 'ws';
import { HoldfastError, systemCodeOf } from '../lib/errors.js';
import type { Entrance } from './access.js';

export interface ListenerOptions {
  /** `mqtt://host:port` or `ws://host:port[/path]`; port 0 takes a free one. */
  readonly url: string;
  /** Lets clients in that give no credentials. */
  readonly anonymous?: boolean;
  /** Web pages that may connect, as their browser names them (`https://hmi.plant`), or `*`. See `mayConnect`. */
  readonly origins?: readonly string[] | undefined;
}

export interface Listener {
  /** With the port that was bound. */
  readonly url: string;
  /** Takes no new connections; those that exist are their owner's. */
  close(): Promise<void>;
}

type Take = (stream: Duplex, socket: Socket) => void;

export type OnConnection = (stream: Duplex, entrance: Entrance) => void;

const PORTS: Readonly<Record<string, number>> = { 'mqtt:': 1883, 'ws:': 9001 };
/** Finds peers whose machine is gone, for clients that asked for no keepalive. */
const TCP_KEEPALIVE_MS = 60_000;
const SUBPROTOCOLS = ['mqtt', 'mqttv3.1'];

/** Throws `listen.failed`. `packetBytesMax` bounds a WebSocket message, which may hold several packets or part of one. */
export async function listen(
  options: ListenerOptions,
  packetBytesMax: number,
  onConnection: OnConnection,
): Promise<Listener> {
  const url = new URL(options.url);
  const port = url.port === '' ? PORTS[url.protocol] : Number(url.port);
  if (port === undefined) {
    throw new HoldfastError('listen.failed', `${options.url}: only mqtt: and ws: can be listened on`, {
      values: { url: options.url },
    });
  }
  const take = (stream: Duplex, { remoteAddress = '' }: Socket): void =>
    onConnection(stream, {
      anonymousAllowed: options.anonymous === true,
      // An IPv4 client of an IPv6 socket is the same client.
      address: remoteAddress.replace(/^::ffff:/, ''),
    });
  const server =
    url.protocol === 'ws:' ? webSocketServer(url.pathname, options.origins, packetBytesMax, take) : tcpServer(take);
  await bind(server, url.hostname.replace(/^\[|\]$/g, ''), port, options.url);
  url.port = String((server.address() as AddressInfo).port);
  return {
    // The port of a scheme that URL does not know is always written out.
    url: url.protocol === 'ws:' ? `ws://${url.host}${url.pathname === '/' ? '' : url.pathname}` : `mqtt://${url.host}`,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

function tcpServer(take: Take): Server {
  return createServer({ noDelay: true, keepAlive: true, keepAliveInitialDelay: TCP_KEEPALIVE_MS }, (socket) =>
    take(socket, socket),
  );
}

function webSocketServer(
  path: string,
  origins: readonly string[] | undefined,
  packetBytesMax: number,
  take: Take,
): HttpServer {
  const server = createHttpServer((_request, response) => {
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
  return server;
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

async function bind(server: Server | HttpServer, host: string, port: number, url: string): Promise<void> {
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
