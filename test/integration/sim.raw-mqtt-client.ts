import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { generate, type IConnectPacket, type Packet, parser } from 'mqtt-packet';
import { until } from '../helpers/wait.js';

/** A client with no will of its own: it sends what it is told, acknowledges nothing by itself, and keeps what came. */
export class RawMqttClient {
  readonly received: Packet[] = [];
  readonly socket: Socket;
  closed = false;
  errorCode = '';
  private readonly protocolVersion: 4 | 5;

  private constructor(socket: Socket, protocolVersion: 4 | 5) {
    this.socket = socket;
    this.protocolVersion = protocolVersion;
    const packets = parser({ protocolVersion });
    // Thrown out of the socket's listener it fails the test: what the broker sends is well-formed, whatever it was sent.
    packets.on('packet', (packet) => this.received.push(packet));
    socket.on('data', (chunk) => packets.parse(chunk));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.errorCode = error.code ?? '';
    });
    socket.on('close', () => {
      this.closed = true;
    });
  }

  static async open(t: TestContext, port: number, protocolVersion: 4 | 5 = 5): Promise<RawMqttClient> {
    const socket = connect(port, '127.0.0.1');
    const client = new RawMqttClient(socket, protocolVersion);
    t.after(() => socket.destroy());
    await once(socket, 'connect');
    return client;
  }

  /** Connects and waits for CONNACK. */
  static async established(
    t: TestContext,
    port: number,
    connectPacket: Partial<IConnectPacket> = {},
  ): Promise<RawMqttClient> {
    const version = connectPacket.protocolVersion === 4 ? 4 : 5;
    const client = await RawMqttClient.open(t, port, version);
    client.send({ cmd: 'connect', clientId: 'raw', protocolVersion: version, clean: true, ...connectPacket });
    await client.next('connack');
    return client;
  }

  send(packet: Packet): void {
    this.socket.write(generate(packet, { protocolVersion: this.protocolVersion }));
  }

  publish(messageId: number, topic = 't', qos: 0 | 1 | 2 = 1, payload: string | Buffer = `m${messageId}`): void {
    this.send({ cmd: 'publish', topic, payload, qos, dup: false, retain: false, messageId });
  }

  inOnePiece(sends: () => void): void {
    this.socket.cork();
    sends();
    this.socket.uncork();
  }

  async subscribe(filter: string, qos: 0 | 1 | 2): Promise<void> {
    this.send({ cmd: 'subscribe', messageId: 60_000, subscriptions: [{ topic: filter, qos }] });
    await this.next('suback');
  }

  all<Cmd extends Packet['cmd']>(cmd: Cmd): Extract<Packet, { cmd: Cmd }>[] {
    return this.received.filter((packet): packet is Extract<Packet, { cmd: Cmd }> => packet.cmd === cmd);
  }

  /** The nth packet of this kind, from 1. */
  async next<Cmd extends Packet['cmd']>(cmd: Cmd, n = 1): Promise<Extract<Packet, { cmd: Cmd }>> {
    await until(`${n} × ${cmd}`, () => this.all(cmd).length >= n);
    return this.all(cmd)[n - 1]!;
  }

  /** A round trip: whatever the broker was to send before has come when it resolves. */
  async roundTrip(): Promise<void> {
    const n = this.all('pingresp').length;
    this.send({ cmd: 'pingreq' });
    await this.next('pingresp', n + 1);
  }
}
