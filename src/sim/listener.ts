import { type AddressInfo, createServer, type Server, type ServerOpts, type Socket } from 'node:net';
import { HoldfastError, systemCodeOf } from '../lib/errors.js';
import { candidatePort } from './free-port.js';

/** What bytes already written get to go out at close; a peer that does not read would hold it up for ever. */
const CLOSE_GRACE_MS = 500;

export interface ListenerOptions {
  readonly host: string;
  /** 0 takes a free one, which stays its own while it is absent. */
  readonly port: number;
  /** Sockets beyond this many are closed as they come, so that a client gone wild cannot exhaust the process. */
  readonly connectionsMax: number;
  readonly allowHalfOpen?: boolean;
}

/**
 * A TCP listener that can go absent and come back on the same port, as a machine that is switched off does: while it is
 * absent the kernel refuses connections. Sockets that are open stay open until `resetAll`, and carry an error listener.
 */
export class Listener {
  readonly host: string;
  readonly port: number;
  readonly sockets: ReadonlySet<Socket>;
  private readonly server: Server;
  private change: Promise<void> = Promise.resolve();
  private closing: Promise<void> | undefined;

  private constructor(server: Server, host: string, port: number, sockets: ReadonlySet<Socket>) {
    this.server = server;
    this.host = host;
    this.port = port;
    this.sockets = sockets;
  }

  /** @throws HoldfastError `listen.failed` */
  static async open(options: ListenerOptions, onSocket: (socket: Socket) => void): Promise<Listener> {
    const sockets = new Set<Socket>();
    const serverOptions: ServerOpts = { noDelay: true, allowHalfOpen: options.allowHalfOpen ?? false };
    const server = createServer(serverOptions, (socket) => {
      sockets.add(socket);
      // Every error is followed by 'close', which is where owners react; without a listener it would end the process.
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
      onSocket(socket);
    });
    server.maxConnections = options.connectionsMax;
    await listenOn(server, options.host, options.port);
    return new Listener(server, options.host, (server.address() as AddressInfo).port, sockets);
  }

  /** Resolves when it is so. @throws HoldfastError `listen.failed` when somebody else has taken the port meanwhile. */
  setPresent(present: boolean): Promise<void> {
    const change = this.change.then(async () => {
      if (present === this.server.listening || this.closing) return;
      if (present) await listen(this.server, this.host, this.port);
      else this.server.close();
    });
    this.change = change.catch(() => {});
    return change;
  }

  /** Ends every open connection with a TCP reset. */
  resetAll(): void {
    for (const socket of this.sockets) resetSocket(socket);
  }

  /** Stops listening and closes what is still open, after bytes already written have gone out. */
  close(): Promise<void> {
    this.closing ??= this.change.then(async () => {
      const ended = [...this.sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
      if (this.server.listening) this.server.close();
      for (const socket of this.sockets) socket.destroySoon();
      const grace = setTimeout(() => this.resetAll(), CLOSE_GRACE_MS);
      await Promise.all(ended);
      clearTimeout(grace);
    });
    return this.closing;
  }
}

/**
 * Ends a connection with a TCP reset. Where there is none to reset yet, Node would wait for it; and while a FIN waits behind
 * unsent bytes libuv refuses, and Node would never close the socket: in both cases a plain close has to do.
 */
export function resetSocket(socket: Socket): void {
  if (socket.connecting || (socket.writableEnded && !socket.writableFinished)) socket.destroy();
  else socket.resetAndDestroy();
}

async function listenOn(server: Server, host: string, port: number): Promise<void> {
  if (port !== 0) return listen(server, host, port);
  for (;;) {
    try {
      return await listen(server, host, candidatePort());
    } catch (error) {
      if (systemCodeOf((error as HoldfastError).cause) !== 'EADDRINUSE') throw error;
    }
  }
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (cause: Error) =>
      reject(new HoldfastError('listen.failed', `Cannot listen on ${host}:${port}`, { values: { host, port }, cause }));
    server.once('error', onError);
    server.listen({ host, port }, () => {
      server.off('error', onError);
      resolve();
    });
  });
}
