/**
 * Whether the spool takes a new row: its own ceiling, and the free space that the device must keep. When it does not, rows
 * that may be given up make room, the oldest first; all others wait. It tells how full it is before that happens.
 */
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock } from '../lib/clock.js';
import type { Log } from '../lib/log.js';
import type { Seq } from '../model/ids.js';
import type { Spool } from '../spool/spool.js';
import type { Layout } from '../store/layout.js';
import type { Store } from '../store/store.js';
import { Forecast } from './forecast.js';

/** Free space changes slowly, and asking for it costs a system call. */
const LOOK_MS = 1_000;
/** Room must have grown by this share of the ceiling before a full spool takes rows again, so that it does not flutter. */
const HYSTERESIS = 0.02;
/** Of what messages may take; each is logged once when it is crossed. */
const ALARM_SHARES = [0.95, 0.85, 0.7];
/** What rows take in the file per byte of their own, until there are enough of them to measure it. */
const FILE_BYTES_PER_BYTE = 1.5;
const MEASURED_BYTES_MIN = 1024 * 1024;
/** Dropped at a time: enough that it is seldom, little enough that it holds up no commit. */
const DROP_SHARE = 1 / 32;
const DROP_BYTES = { min: 64 * 1024, max: 8 * 1024 * 1024 };
/** Rows that may be dropped pass up to half of the reserve, so that they need not wait while older ones go. */
const DROPPABLE_EXTRA_SHARE = 0.05;
/** When there was nothing to drop, there will be nothing for a while. */
const DROP_AGAIN_MS = 1_000;

export interface SpoolRoomOptions {
  readonly spool: Spool;
  readonly store: Store;
  readonly path: string;
  readonly layout: Layout;
  readonly diskFreeMin: number;
  /** Rows up to here are on their way to the cloud and must not be dropped. */
  readonly readUpTo: () => Seq;
  /** Some rows may be dropped. */
  readonly drops: boolean;
  readonly clock: Clock;
  readonly log: Log;
}

export class SpoolRoom {
  private readonly options: SpoolRoomOptions;
  private readonly forecast: Forecast;
  private timer: NodeJS.Timeout | undefined;
  private diskFreeBytes = Number.POSITIVE_INFINITY;
  private readonly full = { kept: false, droppable: false };
  private alarmShare = 0;
  private dropping = false;
  private dropAgainAt = 0;

  private constructor(options: SpoolRoomOptions) {
    this.options = options;
    this.forecast = new Forecast(options.clock);
  }

  static async open(options: SpoolRoomOptions): Promise<SpoolRoom> {
    const room = new SpoolRoom(options);
    await room.look();
    room.timer = setInterval(() => void room.look(), LOOK_MS);
    return room;
  }

  /** Why there is none, in words; undefined when there is room. */
  get problem(): string | undefined {
    if (!this.full.kept) return undefined;
    if (this.options.store.state === 'full') return 'the device is full';
    if (this.byCeiling() > this.byDevice())
      return `less than spool.diskFreeMin is free on the device of ${this.options.path}`;
    return 'the spool has reached spool.bytesMax';
  }

  /** Of what messages may take, 0 to 1. */
  get usedShare(): number {
    const { spool, layout } = this.options;
    return Math.min(1, spool.usedBytes / layout.rowsBytesMax);
  }

  /** The highest alarm threshold that has been crossed, 0 for none. */
  get alarm(): number {
    return this.alarmShare;
  }

  /** Free bytes on the device; null when it cannot be asked. */
  get diskFree(): number | null {
    return Number.isFinite(this.diskFreeBytes) ? this.diskFreeBytes : null;
  }

  /** Seconds until nothing fits any more if the cloud went away now, at the present rate; null when nothing comes in. */
  async secondsUntilFull(): Promise<number | null> {
    const { bytes, bytesIn } = await this.options.spool.stats();
    const measured = bytes >= MEASURED_BYTES_MIN;
    const perByte = measured ? this.options.spool.usedBytes / bytes : FILE_BYTES_PER_BYTE;
    return this.forecast.secondsUntilFull(Math.max(0, this.available(0)) / perByte, bytesIn);
  }

  /** Whether a row may come in now; asking makes room where that is allowed. */
  readonly hasRoom = (droppable: boolean): boolean => {
    const { layout, drops } = this.options;
    const kind = droppable ? 'droppable' : 'kept';
    const extra = droppable ? DROPPABLE_EXTRA_SHARE * layout.rowsBytesMax : 0;
    const least = this.full[kind] ? HYSTERESIS * layout.rowsBytesMax : 0;
    this.full[kind] = this.available(extra) <= least;
    if (drops && this.available(0) <= least) this.drop();
    return !this.full[kind];
  };

  /** Whether there is room for more without dropping anything for it. */
  get isRoomy(): boolean {
    return this.available(0) > HYSTERESIS * this.options.layout.rowsBytesMax;
  }

  close(): void {
    clearInterval(this.timer);
  }

  private available(extra: number): number {
    if (this.options.store.state === 'full') return Number.NEGATIVE_INFINITY;
    return Math.min(this.byCeiling() + extra, this.byDevice());
  }

  /** What waits to be committed will take its room. */
  private byCeiling(): number {
    const { spool, store, layout } = this.options;
    return layout.rowsBytesMax - spool.usedBytes - store.waitingBytes;
  }

  /** Free pages of the file cost the device nothing. */
  private byDevice(): number {
    const { spool, store, diskFreeMin } = this.options;
    return this.diskFreeBytes - diskFreeMin + spool.freeBytes - store.waitingBytes;
  }

  private drop(): void {
    const { spool, layout, readUpTo, clock, log } = this.options;
    if (this.dropping || clock.mono() < this.dropAgainAt) return;
    this.dropping = true;
    const bytes = Math.min(DROP_BYTES.max, Math.max(DROP_BYTES.min, layout.rowsBytesMax * DROP_SHARE));
    const dropped = (rows: number) => {
      this.dropping = false;
      if (rows === 0) this.dropAgainAt = clock.mono() + DROP_AGAIN_MS;
      log.debug({ rows }, 'The oldest rows were dropped to make room');
    };
    // When nothing is committed any more the store has said so, and why.
    void spool.drop(readUpTo(), bytes).then(dropped, () => {});
  }

  private async look(): Promise<void> {
    try {
      const { bavail, bsize } = await statfs(dirname(this.options.path));
      this.diskFreeBytes = bavail * bsize;
    } catch {
      // A device that cannot be asked will refuse the write itself; the store answers for that.
    }
    this.forecast.sample((await this.options.spool.stats()).bytesIn);
    this.watch();
  }

  private watch(): void {
    const { log } = this.options;
    const share = this.usedShare;
    const crossed = ALARM_SHARES.find((limit) => share >= limit) ?? 0;
    if (crossed > this.alarmShare) {
      const percent = Math.floor(share * 100);
      log.warn({ percent }, 'The spool is filling up; when it is full, acknowledgements wait or old rows are dropped');
      this.alarmShare = crossed;
    } else if (share < this.alarmShare - HYSTERESIS) this.alarmShare = crossed;
  }
}
