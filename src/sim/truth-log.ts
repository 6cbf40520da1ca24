import { appendFileSync, closeSync, openSync } from 'node:fs';
import { HoldfastError } from '../lib/errors.js';
import type { Millis } from '../model/ids.js';
import { LINE_ASSETS, type LineAsset } from './line-tags.js';

/** One value that the line has handed to a reader. */
export interface TruthRecord {
  /** Counted from 1, without holes. */
  readonly n: number;
  /** When the answer was handed to the network. */
  readonly ts: Millis;
  readonly asset: LineAsset;
  readonly metric: string;
  /** Scaled where the tag has a scale; a 64-bit integer as decimal text, because JSON numbers are not exact above 2⁵³. */
  readonly value: number | boolean | string;
  /** The Modbus request that carried it, counted from 1. */
  readonly request: number;
}

const FLUSH_EVERY_MS = 1000;
/** Above this many characters the lines are written at once; it bounds the memory of a line that is polled hard. */
const PENDING_CHARS_MAX = 65_536;

/**
 * What the line has served, counted per asset, and as NDJSON in a file when one is given. The file is the independent
 * witness of a run: written synchronously, so that a record is never dropped for want of room.
 */
export class TruthLog {
  private readonly fd: number | undefined;
  private readonly timer: NodeJS.Timeout | undefined;
  private readonly counts = new Map<LineAsset, number>(LINE_ASSETS.map((asset) => [asset, 0]));
  private lines = '';
  private n = 0;
  private failure: HoldfastError | undefined;
  private closed = false;

  private constructor(fd: number | undefined) {
    this.fd = fd;
    if (fd !== undefined) this.timer = setInterval(() => this.flush(), FLUSH_EVERY_MS).unref();
  }

  /** Starts the file anew. @throws HoldfastError `sim.io` when it cannot be written */
  static async open(path: string | undefined): Promise<TruthLog> {
    if (path === undefined) return new TruthLog(undefined);
    try {
      return new TruthLog(openSync(path, 'w'));
    } catch (cause) {
      throw new HoldfastError('sim.io', 'Cannot open the truth file', { values: { path }, cause });
    }
  }

  record(reading: Omit<TruthRecord, 'n'>): void {
    const record: TruthRecord = { n: ++this.n, ...reading };
    this.counts.set(reading.asset, this.counts.get(reading.asset)! + 1);
    if (this.fd === undefined || this.failure) return;
    this.lines += `${JSON.stringify(record)}\n`;
    if (this.lines.length > PENDING_CHARS_MAX) this.flush();
  }

  get readings(): number {
    return this.n;
  }

  perAsset(): Record<LineAsset, number> {
    return Object.fromEntries(this.counts) as Record<LineAsset, number>;
  }

  /** After a write that failed the file is no witness any more: it is left as it is, and `close` throws. */
  flush(): void {
    if (this.fd === undefined || this.failure || this.lines === '') return;
    try {
      appendFileSync(this.fd, this.lines);
    } catch (cause) {
      this.failure = new HoldfastError('sim.io', 'Cannot write the truth file; it is incomplete', { cause });
    }
    this.lines = '';
  }

  /** @throws HoldfastError `sim.io` when the file misses records */
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    clearInterval(this.timer);
    this.flush();
    if (this.fd !== undefined) closeSync(this.fd);
    if (this.failure) throw this.failure;
  }
}
