/**
 * What goes out on one connection. Small packets of one tick are gathered into one write: a group commit acknowledges
 * hundreds of messages at once, and a system call for each would cost more than everything else about them.
 */
import type { Duplex } from 'node:stream';
import type { Counters } from './counters.js';
import type { AckByte } from './publish-codec.js';

const CHUNK_BYTES_MIN = 64;
const CHUNK_BYTES_MAX = 64 * 1024;
/** Packets above this are not copied together with others. */
const GATHER_BYTES_MAX = 16 * 1024;
const NONE = Buffer.alloc(0);

export class Output {
  private readonly socket: Duplex;
  private readonly counters: Counters;
  private readonly full: Buffer[] = [];
  private fullBytes = 0;
  private chunk: Buffer = NONE;
  private at = 0;
  /** What the last tick wrote, as a guess for the next one. */
  private lastBytes = CHUNK_BYTES_MIN;
  private scheduled = false;
  private ended = false;

  constructor(socket: Duplex, counters: Counters) {
    this.socket = socket;
    this.counters = counters;
  }

  /** Bytes not yet taken by the operating system. */
  get waitingBytes(): number {
    return this.socket.writableLength + this.fullBytes + this.at;
  }

  write(packet: Uint8Array): void {
    if (packet.length > GATHER_BYTES_MAX) {
      this.seal();
      this.counters.packetsSent++;
      this.full.push(packet as Buffer);
      this.fullBytes += packet.length;
      this.schedule();
      return;
    }
    const at = this.reserve(packet.length);
    this.chunk.set(packet, at);
  }

  /** `reason` is left out where it is success [MQTT5 3.4.2.1]; pass 0 for 3.1.1. */
  ack(byte: AckByte, packetId: number, reason: number): void {
    const at = this.reserve(reason > 0 ? 5 : 4);
    const { chunk } = this;
    chunk[at] = byte;
    chunk[at + 1] = reason > 0 ? 3 : 2;
    chunk[at + 2] = packetId >> 8;
    chunk[at + 3] = packetId & 0xff;
    if (reason > 0) chunk[at + 4] = reason;
  }

  /** Room for a packet of `bytes` in `buffer`, to be written in this tick. */
  reserve(bytes: number): number {
    this.counters.packetsSent++;
    if (this.at + bytes > this.chunk.length) {
      this.seal();
      const guess = Math.min(CHUNK_BYTES_MAX, Math.max(CHUNK_BYTES_MIN, 2 * this.fullBytes, this.lastBytes));
      this.chunk = Buffer.allocUnsafe(Math.max(guess, bytes));
    }
    this.schedule();
    this.at += bytes;
    return this.at - bytes;
  }

  /** Where `reserve` made room. */
  get buffer(): Buffer {
    return this.chunk;
  }

  /** Sends what has been gathered and then the end of the stream. */
  end(): void {
    this.flush();
    this.ended = true;
    if (!this.socket.destroyed) this.socket.end();
  }

  private seal(): void {
    if (this.at > 0) {
      this.full.push(this.chunk.subarray(0, this.at));
      this.fullBytes += this.at;
    }
    this.chunk = NONE;
    this.at = 0;
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    process.nextTick(() => this.flush());
  }

  private flush(): void {
    this.scheduled = false;
    this.seal();
    const { full, socket } = this;
    if (full.length === 0) return;
    if (!this.ended && !socket.destroyed && socket.writable) {
      if (full.length > 1) socket.cork();
      for (const chunk of full) socket.write(chunk);
      this.counters.sentBytes += this.fullBytes;
      if (full.length > 1) socket.uncork();
    }
    this.lastBytes = this.fullBytes;
    full.length = 0;
    this.fullBytes = 0;
  }
}
