import type { Socket } from 'node:net';
import { Fifo } from './fifo.js';
import type { Direction, Line } from './wan-faults.js';

/**
 * Bytes on their way in one direction of one connection; above, the sender is not read, which its TCP feels. It is also the
 * bandwidth-delay product of the line: 40 MB/s at 25 ms.
 */
const ON_THE_WAY_BYTES_MAX = 1024 * 1024;

/** Between the last bytes and the reset: a receiver that gets both at once reports a plain end of stream. */
const CUT_GRACE_MS = 20;

/** One direction of one connection through the line. Keeps order, passes back-pressure, and the end of the stream last. */
export class Pipe {
  queuedBytes = 0;
  private readonly line: Line;
  private readonly direction: Direction;
  private readonly from: Socket;
  private readonly to: Socket;
  private readonly reset: () => void;
  private readonly queue = new Fifo<{ chunk: Buffer; arrivalMono: number }>();

  private endAtMono: number | undefined;
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(line: Line, direction: Direction, from: Socket, to: Socket, reset: () => void) {
    this.line = line;
    this.direction = direction;
    this.from = from;
    this.to = to;
    this.reset = reset;
    from.on('data', (chunk) => this.push(chunk));
    from.on('end', () => {
      this.endAtMono = line.arrivalOf(direction, 0);
      this.pump();
    });
    to.on('drain', () => this.pump());
  }

  /** Passes on what is due; call it when a fault has been switched. */
  pump(): void {
    clearTimeout(this.timer);
    while (!this.closed && !this.line.blocked(this.direction) && !this.to.writableNeedDrain) {
      const next = this.queue.peek();
      const dueMono = next ? next.arrivalMono : this.endAtMono;
      if (dueMono === undefined) return;
      const waitMs = dueMono - performance.now();
      if (waitMs > 0) {
        this.timer = setTimeout(() => this.pump(), Math.ceil(waitMs));
        return;
      }
      if (!next) {
        this.endAtMono = undefined;
        this.to.end();
        return;
      }
      this.queue.shift();
      this.queuedBytes -= next.chunk.length;
      this.pass(next.chunk);
      if (this.queuedBytes < ON_THE_WAY_BYTES_MAX) this.from.resume();
    }
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.queue.clear();
  }

  private push(chunk: Buffer): void {
    for (const segment of this.line.segments(chunk))
      this.queue.push({ chunk: segment, arrivalMono: this.line.arrivalOf(this.direction, segment.length) });
    this.queuedBytes += chunk.length;
    if (this.queuedBytes >= ON_THE_WAY_BYTES_MAX) this.from.pause();
    this.pump();
  }

  private pass(chunk: Buffer): void {
    const { cutAfter, bytes, tap } = this.line;
    const tapped = tap ? tap(this.direction, chunk) : chunk;
    if (!tapped || this.closed) return;
    const allowed = cutAfter[this.direction];
    if (tapped.length <= allowed) {
      cutAfter[this.direction] -= tapped.length;
      bytes[this.direction] += tapped.length;
      this.to.write(tapped);
      return;
    }
    cutAfter[this.direction] = Number.POSITIVE_INFINITY;
    bytes[this.direction] += allowed;
    this.closed = true;
    this.to.write(tapped.subarray(0, allowed), () => setTimeout(this.reset, CUT_GRACE_MS));
  }
}
