import { connect, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import mqtt, { type Packet } from 'mqtt-packet';
import { until } from './wait.js';

export interface PublisherOptions {
  readonly clientId: string;
  readonly version: 4 | 5;
  readonly qos: 1 | 2;
  /** Publishes on their way at a time. */
  readonly window: number;
  readonly topic?: (n: number) => string;
  readonly payload?: (n: number) => string;
}

interface Flight {
  readonly n: number;
  /** PUBREC has come: the message is the receiver's now, and only the release is outstanding. */
  released: boolean;
}

const RETRY_MS = 20;

/**
 * A publisher that does everything MQTT asks of it, and notes what it was promised: it numbers its messages, keeps its
 * session across broken connections, and repeats what was not acknowledged with the same packet id. It shares no code with
 * the broker.
 */
export class Publisher {
  /** Numbers of the messages whose PUBACK, or first PUBREC, has arrived. */
  readonly promised = new Set<number>();
  /** Connections after the first that found no session. */
  sessionsLost = 0;
  private readonly options: PublisherOptions;
  private readonly port: () => number;
  private readonly flights = new Map<number, Flight>();
  private lastNumber = 0;
  private lastId = 0;
  private connectedBefore = false;
  private connected = false;
  private socket: Socket | undefined;
  private stopped = false;
  private ended = false;

  /** Publishes as fast as the window allows to whatever port `port` names at the moment, until `finish`. */
  constructor(t: TestContext, port: () => number, options: PublisherOptions) {
    this.options = options;
    this.port = port;
    t.after(() => this.close());
    this.dial();
  }

  get id(): string {
    return this.options.clientId;
  }

  get qos(): number {
    return this.options.qos;
  }

  /** What message `n` carries. */
  payload(n: number): string {
    return this.options.payload?.(n) ?? `${this.id}:${n}`;
  }

  /** Publishes nothing new and resolves when everything is acknowledged to the last packet. */
  async finish(): Promise<void> {
    this.stopped = true;
    await until(`${this.id} to have everything acknowledged`, () => this.connected && this.flights.size === 0, 15_000);
    this.close();
  }

  close(): void {
    this.ended = true;
    this.socket?.destroy();
  }

  private dial(): void {
    if (this.ended) return;
    const socket = connect({ port: this.port(), host: '127.0.0.1', noDelay: true });
    this.socket = socket;
    const { version: protocolVersion, clientId } = this.options;
    const parser = mqtt.parser({ protocolVersion });
    parser.on('packet', (packet) => this.receive(packet));
    socket.on('connect', () => {
      const properties = protocolVersion === 5 ? { properties: { sessionExpiryInterval: 3600 } } : {};
      this.send({
        cmd: 'connect',
        protocolId: 'MQTT',
        protocolVersion,
        clientId,
        clean: false,
        keepalive: 30,
        ...properties,
      });
    });
    socket.on('data', (chunk) => parser.parse(chunk as Buffer));
    socket.on('error', () => {});
    socket.on('close', () => {
      this.connected = false;
      setTimeout(() => this.dial(), RETRY_MS).unref();
    });
  }

  private receive(packet: Packet): void {
    if (packet.cmd === 'connack') this.welcome(packet.sessionPresent);
    else if (packet.cmd === 'puback' || packet.cmd === 'pubrec' || packet.cmd === 'pubcomp') {
      this.settle(packet.cmd, packet.messageId!, packet.reasonCode ?? 0);
    }
  }

  private welcome(sessionPresent: boolean): void {
    if (this.connectedBefore && !sessionPresent) this.sessionsLost++;
    this.connectedBefore = true;
    this.connected = true;
    for (const [messageId, flight] of this.flights) {
      if (flight.released) this.send({ cmd: 'pubrel', messageId });
      else this.publish(messageId, flight.n, true);
    }
    this.fill();
  }

  private settle(cmd: 'puback' | 'pubrec' | 'pubcomp', messageId: number, reasonCode: number): void {
    const flight = this.flights.get(messageId);
    if (!flight) throw new Error(`${this.id}: ${cmd} for packet ${messageId}, which is not in flight`);
    // A release that arrives again is answered with "not found", which is fine; nothing else may be refused.
    if (reasonCode >= 0x80 && cmd !== 'pubcomp') throw new Error(`${this.id}: ${cmd} with reason ${reasonCode}`);
    if (cmd === 'pubrec') {
      this.promised.add(flight.n);
      flight.released = true;
      this.send({ cmd: 'pubrel', messageId });
      return;
    }
    if (cmd === 'puback') this.promised.add(flight.n);
    this.flights.delete(messageId);
    this.fill();
  }

  private fill(): void {
    while (!this.stopped && this.flights.size < this.options.window) {
      do this.lastId = (this.lastId % 65_535) + 1;
      while (this.flights.has(this.lastId));
      const n = ++this.lastNumber;
      this.flights.set(this.lastId, { n, released: false });
      this.publish(this.lastId, n, false);
    }
  }

  private publish(messageId: number, n: number, dup: boolean): void {
    const { topic, qos } = this.options;
    const payload = this.payload(n);
    this.send({
      cmd: 'publish',
      topic: topic?.(n) ?? `plant/load/${this.id}/n`,
      payload,
      qos,
      dup,
      retain: false,
      messageId,
    });
  }

  private send(packet: Packet): void {
    this.socket?.write(mqtt.generate(packet, { protocolVersion: this.options.version }));
  }
}
