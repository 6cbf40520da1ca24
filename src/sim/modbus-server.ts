import { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';
import { z } from 'zod';
import { applyFaults, delayMs } from './faults.js';
import { Fifo } from './fifo.js';
import { Listener } from './listener.js';
import { EXCEPTION, exceptionPdu, frame, type Request, takeRequest } from './modbus-pdu.js';

const unit = z.int().min(0).max(255);

/** Faults of the device, in force from the moment they are set. */
export const plcFaults = z.strictObject({
  /** The port refuses connections; those that are open stay. */
  refuse: z.boolean(),
  /** Requests are read and never answered: of all units, or of these. */
  silent: z.union([z.boolean(), z.array(unit)]),
  /** How long an answer waits. It holds the values of the moment at which it leaves. */
  delayMs,
  /** Unit → exception code that every request to it is answered with. */
  exceptions: z.record(z.string().regex(/^\d{1,3}$/), z.int().min(1).max(255)),
});
export type PlcFaults = z.infer<typeof plcFaults>;

/** A PLC serves a handful of masters; more is a client that leaks. */
const CONNECTIONS_MAX = 64;
/** Requests of one connection that wait for a delay; above, its socket is not read. */
const REQUESTS_WAITING_MAX = 64;

export interface ModbusDevice {
  /**
   * The PDU that answers, undefined when there is no such unit. `sent` is called when it has been handed to the network,
   * with the number of the request, counted from 1 over all connections.
   */
  answer(unit: number, pdu: Buffer): { pdu: Buffer; sent?: (request: number) => void } | undefined;
}

export interface ModbusCounters {
  connections: number;
  requests: number;
  reads: number;
  exceptions: number;
  garbage: number;
}

/** Modbus/TCP with pipelining: requests of one connection are answered in the order in which they came. */
export class ModbusServer {
  readonly faults: PlcFaults = { refuse: false, silent: false, delayMs: 0, exceptions: {} };
  readonly counters: ModbusCounters = { connections: 0, requests: 0, reads: 0, exceptions: 0, garbage: 0 };
  private readonly device: ModbusDevice;
  private listener!: Listener;

  private constructor(device: ModbusDevice) {
    this.device = device;
  }

  /** @throws HoldfastError `listen.failed` */
  static async open(options: { host: string; port: number }, device: ModbusDevice): Promise<ModbusServer> {
    const server = new ModbusServer(device);
    server.listener = await Listener.open({ ...options, connectionsMax: CONNECTIONS_MAX }, (socket) => {
      server.counters.connections++;
      new Master(socket, server);
    });
    return server;
  }

  get host(): string {
    return this.listener.host;
  }

  get port(): number {
    return this.listener.port;
  }

  get openConnections(): number {
    return this.listener.sockets.size;
  }

  async set(patch: Partial<PlcFaults>): Promise<void> {
    applyFaults(plcFaults, this.faults, patch);
    await this.listener.setPresent(!this.faults.refuse);
  }

  reset(): void {
    this.listener.resetAll();
  }

  close(): Promise<void> {
    return this.listener.close();
  }

  /** The answer of this moment, or undefined for silence. `sent` goes with it when it has left. */
  respond(request: Request): { bytes: Buffer; sent: () => void } | undefined {
    const number = ++this.counters.requests;
    const { silent, exceptions } = this.faults;
    if (silent === true || (Array.isArray(silent) && silent.includes(request.unit))) return undefined;
    const forced = exceptions[request.unit];
    const answer = forced === undefined ? this.device.answer(request.unit, request.pdu) : undefined;
    const pdu = answer?.pdu ?? exceptionPdu(request.pdu[0]!, forced ?? EXCEPTION.targetFailed);
    const sent = () => {
      if (pdu[0]! & 0x80) this.counters.exceptions++;
      else this.counters.reads++;
      answer?.sent?.(number);
    };
    return { bytes: frame(request, pdu), sent };
  }
}

/** One connection of a master. */
class Master {
  private readonly socket: Socket;
  private readonly server: ModbusServer;
  private received: Buffer = Buffer.alloc(0);
  private readonly waiting = new Fifo<{ request: Request; dueMs: number }>();
  private timer: NodeJS.Timeout | undefined;

  constructor(socket: Socket, server: ModbusServer) {
    this.socket = socket;
    this.server = server;
    socket.on('data', (chunk) => {
      this.received = this.received.length === 0 ? chunk : Buffer.concat([this.received, chunk]);
      this.read();
    });
    socket.on('drain', () => this.read());
    socket.on('close', () => clearTimeout(this.timer));
  }

  private read(): void {
    while (this.waiting.length < REQUESTS_WAITING_MAX && !this.socket.writableNeedDrain && !this.socket.destroyed) {
      const taken = takeRequest(this.received);
      if (taken === 'incomplete') {
        this.socket.resume();
        return;
      }
      if (taken === 'garbage') {
        this.server.counters.garbage++;
        this.socket.destroy();
        return;
      }
      this.received = taken.rest;
      this.waiting.push({ request: taken.request, dueMs: performance.now() + this.server.faults.delayMs });
      this.answerDue();
    }
    this.socket.pause();
  }

  private answerDue(): void {
    if (this.timer) return;
    for (let next = this.waiting.peek(); next; next = this.waiting.peek()) {
      const waitMs = next.dueMs - performance.now();
      if (waitMs > 0) {
        this.timer = setTimeout(() => {
          this.timer = undefined;
          this.answerDue();
          this.read();
        }, Math.ceil(waitMs));
        return;
      }
      this.waiting.shift();
      this.answer(next.request);
    }
  }

  private answer(request: Request): void {
    const response = this.server.respond(request);
    if (response && !this.socket.destroyed)
      this.socket.write(response.bytes, (error) => {
        if (!error) response.sent();
      });
  }
}
