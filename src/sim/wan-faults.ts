import { z } from 'zod';
import { delayMs } from './faults.js';

export type Direction = 'up' | 'down';

/** Faults of the line, in force from the moment they are set. `up` is from the client to the server. */
export const wanFaults = z.strictObject({
  /** Added to every byte, each way. */
  latencyMs: delayMs,
  /** Rate of the line in kilobits per second, each way, shared by all connections. 0: as fast as it goes. */
  kbps: z.number().min(0),
  /**
   * `reset`: open connections are reset and new ones refused. `blackhole`: the line swallows everything, as when a cable
   * is pulled: nobody hears of it. When the cable is back, the old connections go on with what was on its way, as TCP would
   * repeat it. New connections are accepted by this machine's kernel, lead nowhere, and are reset when the cable is back.
   */
  cut: z.enum(['blackhole', 'reset']).nullable(),
  /** One direction, or both, delivers nothing; connections stay. */
  stall: z.enum(['up', 'down', 'both']).nullable(),
});
export type WanFaults = z.infer<typeof wanFaults>;

/** Sees each piece before it is passed on, and may change it or swallow it with null. */
export type Tap = (direction: Direction, chunk: Buffer) => Buffer | null;

/** A slow line passes pieces of this size, so that the first byte need not wait for the last. */
const SEGMENT_BYTES = 1460;

/** The line that all connections share: its faults, its rate, its counters. */
export class Line {
  readonly faults: WanFaults = { latencyMs: 0, kbps: 0, cut: null, stall: null };
  readonly bytes: Record<Direction, number> = { up: 0, down: 0 };
  tap: Tap | null = null;
  /** Bytes until the connection that carries the next one is reset. */
  readonly cutAfter: Record<Direction, number> = { up: Number.POSITIVE_INFINITY, down: Number.POSITIVE_INFINITY };
  private readonly freeMono: Record<Direction, number> = { up: 0, down: 0 };

  blocked(direction: Direction): boolean {
    const { cut, stall } = this.faults;
    return cut !== null || stall === 'both' || stall === direction;
  }

  segments(chunk: Buffer): readonly Buffer[] {
    if (this.faults.kbps === 0) return [chunk];
    const count = Math.ceil(chunk.length / SEGMENT_BYTES);
    return Array.from({ length: count }, (_, n) => chunk.subarray(n * SEGMENT_BYTES, (n + 1) * SEGMENT_BYTES));
  }

  /** When a piece that enters now comes out, on the monotonic clock. */
  arrivalOf(direction: Direction, bytes: number): number {
    const { kbps, latencyMs } = this.faults;
    const now = performance.now();
    if (kbps === 0) return now + latencyMs;
    this.freeMono[direction] = Math.max(now, this.freeMono[direction]) + (bytes * 8) / kbps;
    return this.freeMono[direction] + latencyMs;
  }
}
