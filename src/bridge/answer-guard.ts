/**
 * Stands between the socket and the MQTT client and lets through only what a broker may send to a client that publishes,
 * and, if it has a subscription, what comes of that. A broken or hostile peer is cut off before the client library sees the packet: an empty CONNACK would
 * leave it waiting for ever, and a PUBLISH without a packet id would end the process.
 */
import { Duplex } from 'node:stream';
import { HoldfastError } from '../lib/errors.js';

/** Packet types of MQTT: the shortest body each may have. PUBACK has two bytes in 3.1.1 and may have more in 5. */
const BODY_BYTES_MIN = new Map([
  [2, 2], // CONNACK
  [4, 2], // PUBACK
  [13, 0], // PINGRESP
  [14, 0], // DISCONNECT
]);
/** What comes of a subscription with QoS 1: the shortest body, and the flags that may be set. */
const WITH_SUBSCRIPTION = new Map([
  [3, { least: 3, flags: 0b1011 }], // PUBLISH: DUP, QoS 1, RETAIN
  [9, { least: 3, flags: 0 }], // SUBACK
]);
/** CONNACK and DISCONNECT carry texts for people; nothing that answers a batch is larger. */
const BODY_BYTES_MAX = 64 * 1024;

export class AnswerGuard extends Duplex {
  private readonly socket: Duplex;
  private readonly subscribes: boolean;
  private header: number[] = [];
  private bodyLeft = 0;

  constructor(socket: Duplex, subscribes = false) {
    super();
    this.socket = socket;
    this.subscribes = subscribes;
    socket.on('data', (chunk: Buffer) => this.inspect(chunk));
    socket.on('end', () => this.push(null));
    socket.on('error', (error) => this.destroy(error));
    socket.on('close', () => this.destroy());
  }

  override _read(): void {
    this.socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.socket.write(chunk, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.socket.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.socket.destroy();
    done(error);
  }

  private inspect(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.bodyLeft > 0) {
        const step = Math.min(this.bodyLeft, chunk.length - at);
        this.bodyLeft -= step;
        at += step;
        continue;
      }
      this.header.push(chunk[at++] as number);
      const problem = this.headerProblem();
      if (problem) {
        this.destroy(new HoldfastError('upstream.lost', `The upstream broke the protocol: ${problem}`));
        return;
      }
    }
    if (!this.push(chunk)) this.socket.pause();
  }

  /** Looks at the fixed header read so far; starts the body when it is complete [MQTT-2.2]. */
  private headerProblem(): string | undefined {
    const [first = 0, ...lengthBytes] = this.header;
    const type = first >> 4;
    const { least, flags } = (this.subscribes ? WITH_SUBSCRIPTION.get(type) : undefined) ?? {
      least: BODY_BYTES_MIN.get(type),
      flags: 0,
    };
    if (least === undefined || (first & 0x0f & ~flags) !== 0) return `unexpected packet 0x${first.toString(16)}`;
    const newest = lengthBytes.at(-1);
    if (newest === undefined || newest >= 0x80) return lengthBytes.length >= 4 ? 'bad remaining length' : undefined;
    const length = lengthBytes.reduce((sum, byte, i) => sum + (byte & 0x7f) * 128 ** i, 0);
    if (length < least || length > BODY_BYTES_MAX) return `packet 0x${first.toString(16)} with ${length} bytes`;
    this.header = [];
    this.bodyLeft = length;
    return undefined;
  }
}
