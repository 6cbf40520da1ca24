import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Spool } from '../spool/spool.js';

/** Free space changes slowly, and asking for it costs a system call. */
const DISK_LOOK_MS = 1_000;
/** Room must have grown by this share of the ceiling before a full spool takes rows again, so that it does not flutter. */
const HYSTERESIS = 0.02;

/** Whether the spool takes a new row: its own ceiling, and the free space that the device must keep. */
export class SpoolRoom {
  private readonly spool: Spool;
  private readonly path: string;
  private readonly bytesMax: number;
  private readonly diskFreeMin: number;
  private timer: NodeJS.Timeout | undefined;
  private diskFull = false;
  private full = false;

  private constructor(spool: Spool, path: string, bytesMax: number, diskFreeMin: number) {
    this.spool = spool;
    this.path = path;
    this.bytesMax = bytesMax;
    this.diskFreeMin = diskFreeMin;
  }

  static async open(spool: Spool, path: string, bytesMax: number, diskFreeMin: number): Promise<SpoolRoom> {
    const room = new SpoolRoom(spool, path, bytesMax, diskFreeMin);
    await room.lookAtDisk();
    room.timer = setInterval(() => void room.lookAtDisk(), DISK_LOOK_MS);
    return room;
  }

  /** Why there is none, in words; undefined when there is room. */
  get problem(): string | undefined {
    if (this.diskFull) return `less than spool.diskFreeMin is free on the device of ${this.path}`;
    return this.full ? 'the spool has reached spool.bytesMax' : undefined;
  }

  readonly hasRoom = (): boolean => {
    const limit = this.full ? this.bytesMax * (1 - HYSTERESIS) : this.bytesMax;
    this.full = this.spool.usedBytes >= limit;
    return !this.full && !this.diskFull;
  };

  close(): void {
    clearInterval(this.timer);
  }

  private async lookAtDisk(): Promise<void> {
    try {
      const { bavail, bsize } = await statfs(dirname(this.path));
      const limit = this.diskFull ? this.diskFreeMin * (1 + HYSTERESIS) : this.diskFreeMin;
      this.diskFull = bavail * bsize < limit;
    } catch {
      // A device that cannot be asked will refuse the write itself; the store answers for that.
    }
  }
}
