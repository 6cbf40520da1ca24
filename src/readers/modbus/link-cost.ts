import { dataBytesOf, type ReadRequest, type WriteRequest } from './requests.js';

/**
 * What asking costs on a link: a fixed part for each request, and a part for each byte of the answer. From the two follows
 * how many registers may be read for nothing rather than asking twice.
 *
 * On a serial line the baud rate says it. Elsewhere it is measured: a straight line is laid through the times of the
 * answers over their lengths, and older answers count less and less.
 */
export class LinkCost {
  private readonly byteTimeMs: number;
  private weight = 0;
  private bytes = 0;
  private rtt = 0;
  private bytesSquared = 0;
  private bytesRtt = 0;

  /** `byteTimeMs` of the bus, 0 when it is not known. */
  constructor(byteTimeMs: number) {
    this.byteTimeMs = byteTimeMs;
  }

  add(bytes: number, rttMs: number): void {
    this.weight = this.weight * MEMORY + 1;
    this.bytes = this.bytes * MEMORY + bytes;
    this.rtt = this.rtt * MEMORY + rttMs;
    this.bytesSquared = this.bytesSquared * MEMORY + bytes * bytes;
    this.bytesRtt = this.bytesRtt * MEMORY + bytes * rttMs;
  }

  /** What the bytes of a request and its answer take on a bus of known speed, on top of the device's own time. */
  onTheWireMs(request: ReadRequest | WriteRequest): number {
    const payload =
      'quantity' in request ? dataBytesOf(request) : 'registers' in request ? request.registers.length * 2 : 0;
    return this.byteTimeMs * (OVERHEAD_BYTES + payload);
  }

  /** Registers between two values that cost less than a further request. */
  gapRegisters(): number {
    const { perRequestMs, perByteMs } = this.estimate();
    if (perByteMs <= 0) return perRequestMs > 0 ? GAP_REGISTERS_MAX : GAP_REGISTERS_UNKNOWN;
    return Math.min(GAP_REGISTERS_MAX, Math.max(0, Math.ceil(perRequestMs / (2 * perByteMs))));
  }

  /** What a read of so many data bytes takes; 0 while nothing is known. */
  readMs(dataBytes: number): number {
    const { perRequestMs, perByteMs } = this.estimate();
    return perRequestMs + perByteMs * dataBytes;
  }

  private estimate(): { perRequestMs: number; perByteMs: number } {
    const mean = this.weight > 0 ? this.rtt / this.weight : 0;
    if (this.byteTimeMs > 0) {
      const wireMs = this.byteTimeMs * (OVERHEAD_BYTES + (this.weight > 0 ? this.bytes / this.weight : 0));
      const turnaroundMs = this.weight > 0 ? Math.max(0, mean - wireMs) : TURNAROUND_MS;
      return { perRequestMs: this.byteTimeMs * OVERHEAD_BYTES + turnaroundMs, perByteMs: this.byteTimeMs };
    }
    const spread = this.weight * this.bytesSquared - this.bytes ** 2;
    // Answers of one length tell nothing of what a byte costs.
    if (this.weight < WEIGHT_MIN || spread < this.weight ** 2 * SPREAD_BYTES_MIN ** 2)
      return { perRequestMs: 0, perByteMs: 0 };
    const slope = Math.max(0, (this.weight * this.bytesRtt - this.bytes * this.rtt) / spread);
    return { perRequestMs: Math.max(0, mean - (slope * this.bytes) / this.weight), perByteMs: slope };
  }
}

/** Request of eight bytes; unit, function, byte count and CRC of the answer. */
const OVERHEAD_BYTES = 13;
/** What a PLC typically takes before it answers, until it is measured. */
const TURNAROUND_MS = 20;
/** About the last 500 answers. */
const MEMORY = 0.998;
/** Below so many answers a line through them is a guess. */
const WEIGHT_MIN = 30;
/** Standard deviation of the lengths. */
const SPREAD_BYTES_MIN = 8;
/** Half of the longest read: beyond that a hole is more likely one that the device refuses than one worth reading. */
const GAP_REGISTERS_MAX = 60;
/** Measured on 300 tags: 16 gives 15 requests instead of 58, and more gains little. */
const GAP_REGISTERS_UNKNOWN = 16;
