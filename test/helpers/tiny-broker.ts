import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import mqttPacket, { type IConnectPacket, type Packet } from 'mqtt-packet';

interface Pending {
  readonly topic: string;
  readonly payload: Buffer;
}

/**
 * Just enough of a broker to see every packet of one subscriber: it keeps one session, sends what is unacknowledged at
 * every connection again, and never acknowledges on its own account. Hooks let a test break the protocol.
 */
export class TinyBroker {
  readonly connects: IConnectPacket[] = [];
  readonly acknowledged: number[] = [];
  readonly received: Packet[] = [];
  /** Return true when the packet has been dealt with. */
  intercept: (packet: Packet, socket: Socket) => boolean = () => false;
  sessionPresent = false;
  private readonly server: Server;
  private readonly pending = new Map<number, Pending>();
  private readonly sockets = new Set<Socket>();
  private lastId = 0;
  private subscribed: Socket | undefined;
  private version = 5;

  private constructor(server: Server) {
    this.server = server;
  }

  static async open(t: TestContext): Promise<TinyBroker> {
    const server = createServer();
    const broker = new TinyBroker(server);
    server.on('connection', (socket) => broker.serve(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => broker.close());
    return broker;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  get unacknowledged(): number {
    return this.pending.size;
  }

  /** Goes out now, or as soon as a subscriber is there. */
  publish(topic: string, payload: Buffer): number {
    const id = ++this.lastId;
    this.pending.set(id, { topic, payload });
    if (this.subscribed) this.send(this.subscribed, id);
    return id;
  }

  /** Cuts every connection. */
  drop(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  write(bytes: Buffer): void {
    this.subscribed?.write(bytes);
  }

  async close(): Promise<void> {
    this.drop();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private serve(socket: Socket): void {
    this.sockets.add(socket);
    socket.on('close', () => {
      this.sockets.delete(socket);
      if (this.subscribed === socket) this.subscribed = undefined;
    });
    socket.on('error', () => {});
    const parser = mqttPacket.parser({ protocolVersion: 5 });
    parser.on('packet', (packet) => {
      this.received.push(packet);
      if (!this.intercept(packet, socket)) this.answer(packet, socket);
    });
    socket.on('data', (bytes) => parser.parse(bytes));
  }

  private answer(packet: Packet, socket: Socket): void {
    const reply = (answer: Packet) => socket.write(mqttPacket.generate(answer, { protocolVersion: this.version }));
    if (packet.cmd === 'connect') {
      this.connects.push(packet);
      this.version = packet.protocolVersion ?? 5;
      reply({ cmd: 'connack', returnCode: 0, reasonCode: 0, sessionPresent: this.sessionPresent });
      this.sessionPresent = true;
    } else if (packet.cmd === 'subscribe') {
      reply({ cmd: 'suback', messageId: packet.messageId!, granted: packet.subscriptions.map(() => 1) });
      this.subscribed = socket;
      for (const id of this.pending.keys()) this.send(socket, id);
    } else if (packet.cmd === 'puback') {
      this.acknowledged.push(packet.messageId!);
      this.pending.delete(packet.messageId!);
    } else if (packet.cmd === 'pingreq') reply({ cmd: 'pingresp' });
  }

  private send(socket: Socket, messageId: number): void {
    const { topic, payload } = this.pending.get(messageId)!;
    const packet: Packet = { cmd: 'publish', topic, payload, qos: 1, messageId, dup: false, retain: false };
    socket.write(mqttPacket.generate(packet, { protocolVersion: this.version }));
  }
}
