import { Buffer } from 'node:buffer';

/** The remaining length has at most four bytes [MQTT-1.5.5-1]. */
const LENGTH_BYTES_MAX = 4;

export type FrameFault = 'malformed' | 'too-large';

/**
 * Cuts a byte stream into whole MQTT packets without looking into them. Its reason to exist is the limit: the parser of
 * mqtt-packet would gather a packet of 256 MB before it shows it to anybody.
 */
export class FrameReader {
  private chunks: Buffer[] = [];
  private size = 0;

  push(chunk: Buffer): void {
    this.chunks.push(chunk);
    this.size += chunk.length;
  }

  /** The next whole packet, undefined when more bytes are needed, or why the stream is of no more use. */
  next(packetBytesMax: number): Buffer | FrameFault | undefined {
    const bytes = this.packetBytes();
    if (bytes === undefined || bytes === 'malformed') return bytes;
    if (bytes > packetBytesMax) return 'too-large';
    if (bytes > this.size) return undefined;
    const all = this.gathered();
    const rest = all.subarray(bytes);
    this.chunks = rest.length > 0 ? [rest] : [];
    this.size = rest.length;
    return all.subarray(0, bytes);
  }

  /** Size of the packet at the head, its fixed header included. */
  private packetBytes(): number | 'malformed' | undefined {
    if (this.chunks.length > 1 && this.chunks[0]!.length <= LENGTH_BYTES_MAX) this.gathered();
    const head = this.chunks[0];
    if (!head) return undefined;
    let length = 0;
    for (let n = 1; n <= LENGTH_BYTES_MAX; n++) {
      const byte = head[n];
      if (byte === undefined) return undefined;
      length += (byte & 0x7f) * 128 ** (n - 1);
      if (byte < 0x80) return 1 + n + length;
    }
    return 'malformed';
  }

  private gathered(): Buffer {
    if (this.chunks.length > 1) this.chunks = [Buffer.concat(this.chunks, this.size)];
    return this.chunks[0] ?? Buffer.alloc(0);
  }
}
