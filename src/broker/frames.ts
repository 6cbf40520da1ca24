/**
 * Cuts a byte stream into MQTT packets [MQTT5 2.1]. The announced length is checked before anything is kept, and memory
 * grows only with bytes that have arrived, so a header that claims 256 MiB costs five bytes. Frames of one chunk are views
 * of it; only a packet that spans chunks is copied.
 */
import { ProtocolError, REASON } from './reason.js';

const NONE = Buffer.alloc(0);
const PARTIAL_BYTES_MIN = 64;
/** A type byte and one to four bytes of length. */
const HEADER_BYTES_MIN = 2;
const HEADER_BYTES_MAX = 5;

export class FrameReader {
  bytesMax: number;
  /** Where the body of the frame that `next` returned last begins. */
  bodyAt = 0;
  private chunk: Buffer = NONE;
  private at = 0;
  /** The first bytes of a packet whose end has not arrived. */
  private partial: Buffer = NONE;
  private length = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  push(chunk: Buffer): void {
    this.chunk = this.at < this.chunk.length ? Buffer.concat([this.chunk.subarray(this.at), chunk]) : chunk;
    this.at = 0;
  }

  /** The next whole packet, or null until more bytes come. Throws ProtocolError for a bad or too large length. */
  next(): Buffer | null {
    if (this.length > 0) return this.complete();
    const size = this.measure(this.chunk, this.at, this.chunk.length);
    if (size > 0 && this.at + size <= this.chunk.length) {
      const frame = this.chunk.subarray(this.at, this.at + size);
      this.at += size;
      return frame;
    }
    if (this.at < this.chunk.length) this.keep(this.chunk.length - this.at);
    this.chunk = NONE;
    this.at = 0;
    return null;
  }

  private complete(): Buffer | null {
    for (;;) {
      const size = this.measure(this.partial, 0, this.length);
      // Without a whole header one more byte is wanted, so that nothing of the next packet is taken.
      const missing = size === 0 ? 1 : size - this.length;
      const here = Math.min(missing, this.chunk.length - this.at);
      if (here > 0) this.keep(here);
      if (here < missing) return null;
      if (size === 0) continue;
      const frame = this.partial.subarray(0, this.length);
      this.measure(frame, 0, frame.length);
      this.partial = NONE;
      this.length = 0;
      return frame;
    }
  }

  private keep(bytes: number): void {
    const { chunk, at, length } = this;
    if (length + bytes > this.partial.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(PARTIAL_BYTES_MIN, 2 * length, length + bytes));
      this.partial.copy(larger, 0, 0, length);
      this.partial = larger;
    }
    chunk.copy(this.partial, length, at, at + bytes);
    this.length += bytes;
    this.at += bytes;
  }

  /** Size of the packet that begins at `start`, or 0 while its header is not there yet. */
  private measure(bytes: Buffer, start: number, end: number): number {
    if (end - start < HEADER_BYTES_MIN) return 0;
    let at = start + 1;
    let rest = 0;
    for (let shift = 0; ; shift += 7) {
      if (at - start >= HEADER_BYTES_MAX) throw new ProtocolError(REASON.malformed, 'the length has more than 4 bytes');
      if (at >= end) return 0;
      const byte = bytes[at++] as number;
      rest += (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    const header = at - start;
    if (header + rest > this.bytesMax) throw new ProtocolError(REASON.packetTooLarge, 'the packet is too large');
    this.bodyAt = header;
    return header + rest;
  }
}
