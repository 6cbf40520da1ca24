import type { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';
import { parser as createParser, generate, type Packet } from 'mqtt-packet';
import { resetSocket } from '../listener.js';
import { FrameReader } from './frames.js';

export interface PacketHandlers {
  packet(packet: Packet): void;
  malformed(): void;
  tooLarge(): void;
  /** What was written has left. */
  drained(): void;
  /** True while no more packets may be taken. */
  backedUp(): boolean;
  closed(): void;
}

/** Bytes written and not taken by the network; above, nothing more is sent and nothing more is read. */
const WRITE_BYTES_MAX = 1024 * 1024;
/** A last packet gets this long to arrive: a reset at once would take it back out of the client's receive buffer. */
const LINGER_MS = 500;

/** MQTT packets over a socket, bounded in both directions, with the faults that belong to the connection itself. */
export class PacketSocket {
  version: 4 | 5 = 4;
  /** What this side takes; more is refused before it is gathered. */
  packetBytesMax: number;
  /** What the other side takes. */
  sendBytesMax = Number.POSITIVE_INFINITY;
  lastHeardMono = performance.now();
  private readonly socket: Socket;
  private readonly handlers: PacketHandlers;
  private readonly frames = new FrameReader();
  private readonly parser = createParser();
  private parsed: Packet | undefined;
  private muted = false;
  private ended = false;

  constructor(socket: Socket, packetBytesMax: number, handlers: PacketHandlers) {
    this.socket = socket;
    this.packetBytesMax = packetBytesMax;
    this.handlers = handlers;
    this.parser.on('packet', (packet) => {
      this.parsed = packet;
    });
    // An error leaves `parsed` empty; without a listener the parser would throw it a second time.
    this.parser.on('error', () => {});
    socket.on('data', (chunk) => this.take(chunk));
    socket.on('drain', () => {
      handlers.drained();
      this.readOn();
    });
    socket.on('close', () => {
      this.ended = true;
      handlers.closed();
    });
  }

  /** Reads on and never answers again. */
  mute(): void {
    this.muted = true;
  }

  /** False for a connection that is not to be judged by its silence: we are not listening ourselves. */
  get listening(): boolean {
    return !this.muted && !this.ended && !this.socket.isPaused();
  }

  get ready(): boolean {
    return !this.muted && !this.ended && this.socket.writableLength < WRITE_BYTES_MAX;
  }

  /** False when the packet is larger than the other side takes; nothing is sent then. */
  send(packet: Packet): boolean {
    if (this.muted || this.ended) return true;
    const bytes = generate(packet, { protocolVersion: this.version });
    if (bytes.length > this.sendBytesMax) return false;
    if (this.socket.writableCorked === 0) {
      // One system call for all the answers to one chunk.
      this.socket.cork();
      process.nextTick(() => this.socket.uncork());
    }
    this.socket.write(bytes);
    return true;
  }

  /** Closes after what was sent has gone out. */
  end(): void {
    if (this.ended) return;
    this.ended = true;
    this.socket.end();
    this.socket.resume();
    const linger = setTimeout(() => this.socket.destroy(), LINGER_MS);
    this.socket.once('close', () => clearTimeout(linger));
  }

  reset(): void {
    this.ended = true;
    resetSocket(this.socket);
  }

  /** Call when `backedUp` may have become false. */
  readOn(): void {
    if (this.socket.isPaused() && !this.backedUp()) this.socket.resume();
  }

  private backedUp(): boolean {
    return this.socket.writableLength >= WRITE_BYTES_MAX || this.handlers.backedUp();
  }

  private take(chunk: Buffer): void {
    this.lastHeardMono = performance.now();
    if (this.muted || this.ended) return;
    this.frames.push(chunk);
    while (!this.muted && !this.ended) {
      const frame = this.frames.next(this.packetBytesMax);
      if (frame === undefined) break;
      if (frame === 'malformed') this.handlers.malformed();
      else if (frame === 'too-large') this.handlers.tooLarge();
      else this.open(frame);
    }
    if (!this.ended && this.backedUp()) this.socket.pause();
  }

  private open(frame: Buffer): void {
    this.parsed = undefined;
    try {
      this.parser.parse(frame);
    } catch {
      // The parser reads past the end of some packets that are cut short inside.
      this.parsed = undefined;
    }
    if (this.parsed) this.handlers.packet(this.parsed);
    else this.handlers.malformed();
  }
}
