import { connect, type Socket } from 'node:net';
import { applyFaults } from './faults.js';
import { Listener, resetSocket } from './listener.js';
import { type Direction, Line, type Tap, type WanFaults, wanFaults } from './wan-faults.js';
import { Pipe } from './wan-pipe.js';

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

export interface WanProxyOptions {
  /** Default 127.0.0.1 and a free port. */
  readonly listen?: Partial<Endpoint>;
  readonly to: Endpoint;
  readonly faults?: Partial<WanFaults>;
}

export interface WanStats {
  readonly connections: number;
  readonly accepted: number;
  /** Connections that the far end refused. */
  readonly unreachable: number;
  readonly bytesUp: number;
  readonly bytesDown: number;
  /** Bytes that have entered the line and not left it. */
  readonly onTheWay: number;
}

/** Each may hold twice the bytes that a pipe keeps on their way. */
const CONNECTIONS_MAX = 64;

/** A TCP proxy that stands in for the line between a plant and its cloud, and fails as such lines do. */
export class WanProxy {
  readonly to: Endpoint;
  private readonly line = new Line();
  private readonly connections = new Set<Connection>();
  private listener!: Listener;
  private accepted = 0;
  private unreachable = 0;

  private constructor(options: WanProxyOptions) {
    this.to = options.to;
    applyFaults(wanFaults, this.line.faults, options.faults ?? {});
  }

  /** @throws HoldfastError `listen.failed`, or `usage.invalid` for wrong faults */
  static async open(options: WanProxyOptions): Promise<WanProxy> {
    const proxy = new WanProxy(options);
    const { host = '127.0.0.1', port = 0 } = options.listen ?? {};
    const listenerOptions = { host, port, connectionsMax: CONNECTIONS_MAX, allowHalfOpen: true };
    proxy.listener = await Listener.open(listenerOptions, (socket) => proxy.accept(socket));
    await proxy.set({});
    return proxy;
  }

  get host(): string {
    return this.listener.host;
  }

  get port(): number {
    return this.listener.port;
  }

  /** Switches faults; resolves with all of them when they are in force. @throws HoldfastError `usage.invalid` */
  async set(patch: Partial<WanFaults>): Promise<WanFaults> {
    const { faults } = this.line;
    applyFaults(wanFaults, faults, patch);
    const listening = this.listener.setPresent(faults.cut !== 'reset');
    if (faults.cut === 'reset') this.reset();
    for (const connection of this.connections) connection.proceed();
    await listening;
    return { ...faults };
  }

  /** Resets every open connection, on both sides, now. */
  reset(): void {
    for (const connection of this.connections) connection.reset();
  }

  /** After `bytes` more bytes in this direction, whatever packet they end in, the connection that carries them is reset. */
  cutAfter(direction: Direction, bytes: number): void {
    this.line.cutAfter[direction] = bytes;
  }

  /** Sees every piece that is passed on; null takes the tap off. */
  tap(tap: Tap | null): void {
    this.line.tap = tap;
  }

  stats(): WanStats {
    const { up, down } = this.line.bytes;
    const { accepted, unreachable } = this;
    const onTheWay = [...this.connections].reduce((sum, connection) => sum + connection.onTheWay, 0);
    return { connections: this.connections.size, accepted, unreachable, bytesUp: up, bytesDown: down, onTheWay };
  }

  close(): Promise<void> {
    this.reset();
    return this.listener.close();
  }

  private accept(socket: Socket): void {
    this.accepted++;
    const connection: Connection = new Connection(this.line, socket, this.to, {
      closed: () => this.connections.delete(connection),
      unreachable: () => this.unreachable++,
    });
    this.connections.add(connection);
  }
}

interface ConnectionEvents {
  closed(): void;
  unreachable(): void;
}

/** A client's socket, the socket to the server, and the two directions between them. */
class Connection {
  private readonly line: Line;
  private readonly client: Socket;
  private readonly events: ConnectionEvents;
  private server: Socket | undefined;
  private pipes: readonly Pipe[] = [];
  /** One side broke off while the line was cut; the other hears of it when the line is back. */
  private broken = false;
  private ended = false;

  constructor(line: Line, client: Socket, to: Endpoint, events: ConnectionEvents) {
    this.line = line;
    this.client = client;
    this.events = events;
    client.on('close', (failed) => this.sideClosed(failed));
    if (line.faults.cut === null) this.dial(to);
    else this.leadNowhere();
  }

  get onTheWay(): number {
    return this.pipes.reduce((sum, pipe) => sum + pipe.queuedBytes, 0);
  }

  /** Goes on with what the faults allow now. */
  proceed(): void {
    if (this.line.faults.cut !== null) return;
    if (this.broken || !this.server) this.reset();
    else for (const pipe of this.pipes) pipe.pump();
  }

  reset(): void {
    if (this.ended) return;
    this.ended = true;
    for (const pipe of this.pipes) pipe.close();
    resetSocket(this.client);
    if (this.server) resetSocket(this.server);
    this.events.closed();
  }

  private dial(to: Endpoint): void {
    const server = connect({ ...to, allowHalfOpen: true, noDelay: true });
    this.server = server;
    server.on('error', (error: NodeJS.ErrnoException) => {
      if (error.syscall === 'connect') this.events.unreachable();
    });
    server.on('close', (failed) => this.sideClosed(failed));
    const reset = () => this.reset();
    this.pipes = [
      new Pipe(this.line, 'up', this.client, server, reset),
      new Pipe(this.line, 'down', server, this.client, reset),
    ];
  }

  /** Its first packet would never have got through: the server must not see it later, from a client that has given up. */
  private leadNowhere(): void {
    this.client.resume();
    this.client.on('end', () => this.reset());
  }

  private sideClosed(failed: boolean): void {
    if (this.ended) return;
    if (this.line.faults.cut !== null && this.server) this.broken = true;
    else if (failed || (this.client.destroyed && this.server?.destroyed !== false)) this.reset();
  }
}
