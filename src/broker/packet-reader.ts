/** Reads one client's packets, one after the other, whenever nothing speaks against it. */
import type { Duplex } from 'node:stream';
import { FrameReader } from './frames.js';
import type { Output } from './output.js';
import { ReadGate } from './read-gate.js';
import { ProtocolError, REASON } from './reason.js';
import type { Shared } from './shared.js';

/** Types of the packets that clients send [MQTT5 2.1.2]. */
export const PACKET = {
  connect: 1,
  publish: 3,
  puback: 4,
  pubrec: 5,
  pubrel: 6,
  pubcomp: 7,
  subscribe: 8,
  unsubscribe: 10,
  pingreq: 12,
  disconnect: 14,
} as const;
/** Flags are fixed for every type but PUBLISH: 0b0010 for these, 0 for all others [MQTT-2.1.3-1]. */
const FLAGGED: ReadonlySet<number> = new Set([PACKET.pubrel, PACKET.subscribe, PACKET.unsubscribe]);
/** Messages stop at `socketBytesMax`, so far above it are only acknowledgements that the client does not read. */
const CLOG_FACTOR = 4;

export interface PacketOwner {
  readonly output: Output;
  readonly isClosed: boolean;
  /** May throw ProtocolError. */
  onPacket(type: number, frame: Buffer, bodyAt: number): void;
  /** `onPacket` has thrown, or the bytes are no packet. */
  onBroken(error: unknown): void;
}

export class PacketReader {
  readonly gate: ReadGate;
  /** Monotonic ms of the last bytes from the client. */
  seenAt: number;
  private readonly shared: Shared;
  private readonly owner: PacketOwner;
  private readonly socket: Duplex;
  private readonly frames: FrameReader;
  private reading = false;

  constructor(shared: Shared, owner: PacketOwner, socket: Duplex) {
    this.shared = shared;
    this.owner = owner;
    this.socket = socket;
    this.gate = new ReadGate(socket);
    this.frames = new FrameReader(shared.limits.connectBytesMax);
    this.seenAt = shared.clock.mono();
  }

  start(): void {
    this.socket.on('data', (chunk: Buffer) => this.onData(chunk));
  }

  /** The client is known, and may send packets of full size. */
  trust(): void {
    this.frames.bytesMax = this.shared.limits.packetBytesMax;
    this.seenAt = this.shared.clock.mono();
  }

  /** Of the reasons for which packets that have arrived stay unread, this one is gone. */
  resume(reason: 'answer' | 'rate'): void {
    this.gate.open(reason);
    this.read();
  }

  private onData(chunk: Buffer): void {
    if (this.owner.isClosed) return;
    this.seenAt = this.shared.clock.mono();
    this.shared.counters.receivedBytes += chunk.length;
    this.frames.push(chunk);
    this.read();
    const { gate, owner, socket } = this;
    const bytesMax = CLOG_FACTOR * this.shared.limits.socketBytesMax;
    if (owner.isClosed || owner.output.waitingBytes <= bytesMax || gate.isShut('clogged')) return;
    gate.shut('clogged');
    socket.once('drain', () => gate.open('clogged'));
  }

  private read(): void {
    if (this.reading) return;
    this.reading = true;
    const { owner, frames, gate } = this;
    try {
      while (!owner.isClosed && !gate.isShut('answer', 'rate', 'stopped')) {
        const frame = frames.next();
        if (!frame) break;
        this.shared.counters.packetsReceived++;
        const first = frame[0] as number;
        const type = first >> 4;
        if (type !== PACKET.publish && (first & 0x0f) !== (FLAGGED.has(type) ? 2 : 0))
          throw new ProtocolError(REASON.malformed, 'reserved flags');
        owner.onPacket(type, frame, frames.bodyAt);
      }
    } catch (error) {
      owner.onBroken(error);
    } finally {
      this.reading = false;
    }
  }
}
