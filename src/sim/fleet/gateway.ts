import { connect, type Socket } from 'node:net';
import { parser as createParser, generate, type Packet } from 'mqtt-packet';
import { encodeBatch } from './encoding.js';
import { Stream, type StreamOptions } from './stream.js';

export interface FleetGatewayOptions extends StreamOptions {
  readonly id: string;
  readonly epoch: string;
  readonly host: string;
  readonly port: number;
  readonly batchRows: number;
  /** Batches on their way at a time. */
  readonly window: number;
  readonly now: () => number;
  /** Device time after which no scan is made any more. */
  readonly endTs: number;
  /** Its line fails once, when so many batches have been sent. */
  readonly cutAfterBatches: number | undefined;
  /** Called for each batch that the cloud has acknowledged, with the device time of its newest reading. */
  readonly onAcked: (gateway: FleetGateway, newestTs: number) => void;
}

interface Flight {
  readonly id: number;
  readonly payload: Buffer;
  readonly rows: number;
  readonly newestTs: number;
}

const RECONNECT_MS = { min: 200, max: 2_000 };
const PACKET_ID_MAX = 65_535;

/** A gateway with a spool that never loses anything: what was not acknowledged before a cut goes out again after it. */
export class FleetGateway {
  readonly options: FleetGatewayOptions;
  readonly stream: Stream;
  readonly stats = { connects: 0, batches: 0, repeated: 0, rowsAcked: 0 };
  /** When its backlog was gone, in milliseconds of `performance.now`. */
  drainedAt: number | undefined;
  private flights: Flight[] = [];
  private socket: Socket | undefined;
  private connected = false;
  private lastId = 0;
  private timer: NodeJS.Timeout | undefined;
  private cutTimer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(options: FleetGatewayOptions) {
    this.options = options;
    this.stream = new Stream(options);
  }

  get idle(): boolean {
    return this.flights.length === 0 && this.stream.nextTs > this.options.now();
  }

  get done(): boolean {
    return (
      this.flights.length === 0 && this.stream.nextTs > this.options.endTs && this.options.now() >= this.options.endTs
    );
  }

  connect(): void {
    const { host, port, id } = this.options;
    const socket = connect({ host, port });
    this.socket = socket;
    const parser = createParser({ protocolVersion: 5 });
    parser.on('packet', (packet) => this.take(packet));
    parser.on('error', () => socket.destroy());
    socket.on('data', (chunk) => parser.parse(chunk));
    socket.on('drain', () => this.pump());
    socket.on('error', () => {});
    socket.on('close', () => this.lost());
    this.send({
      cmd: 'connect',
      clientId: id,
      protocolId: 'MQTT',
      protocolVersion: 5,
      clean: true,
      keepalive: 0,
    } as Packet);
  }

  /** As a line that fails: without a farewell, and with batches in flight. */
  cut(): void {
    this.socket?.resetAndDestroy();
  }

  /** Sends what there is, as far as the window allows. */
  pump(): void {
    const { window, batchRows, now, endTs, id, epoch, asset } = this.options;
    while (this.connected && this.flights.length < window && !this.socket?.writableNeedDrain) {
      const at = now();
      const rows = this.stream.take(batchRows, Math.min(at, endTs), at >= endTs);
      if (rows.length === 0) break;
      const payload = encodeBatch(id, epoch, asset, rows);
      this.lastId = (this.lastId % PACKET_ID_MAX) + 1;
      const flight = { id: this.lastId, payload, rows: rows.length, newestTs: rows.at(-1)!.ts };
      this.flights.push(flight);
      this.publish(flight, false);
    }
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    clearTimeout(this.cutTimer);
    this.socket?.destroy();
  }

  private take(packet: Packet): void {
    if (packet.cmd === 'connack') {
      if ((packet.reasonCode ?? 0) !== 0) return void this.socket?.destroy();
      this.connected = true;
      this.stats.connects++;
      for (const flight of this.flights) this.publish(flight, true);
      this.pump();
    } else if (packet.cmd === 'puback') this.acknowledged(packet.messageId ?? 0, packet.reasonCode ?? 0);
  }

  private acknowledged(id: number, reasonCode: number): void {
    const at = this.flights.findIndex((flight) => flight.id === id);
    const flight = this.flights[at];
    if (!flight) return;
    // Nobody has subscribed yet, or it was refused: the batch goes out again on the next connection.
    if (reasonCode >= 0x10) return void this.socket?.destroy();
    this.flights.splice(at, 1);
    this.stats.rowsAcked += flight.rows;
    this.options.onAcked(this, flight.newestTs);
    this.pump();
    if (this.idle) this.drainedAt ??= performance.now();
  }

  private publish({ id, payload }: Flight, again: boolean): void {
    this.stats.batches++;
    if (again) this.stats.repeated++;
    const topic = `edge/${this.options.id}/batch`;
    this.send({ cmd: 'publish', topic, payload, qos: 1, messageId: id, dup: false, retain: false } as Packet);
    // After the bytes have left, so that the broker has the batch and its acknowledgement is what is lost.
    if (this.stats.batches === this.options.cutAfterBatches) this.cutTimer = setTimeout(() => this.cut(), 1);
  }

  private send(packet: Packet): void {
    this.socket?.write(generate(packet, { protocolVersion: 5 }));
  }

  private lost(): void {
    this.connected = false;
    if (this.closed) return;
    const { min, max } = RECONNECT_MS;
    this.timer = setTimeout(() => this.connect(), min + Math.random() * (max - min));
  }
}
