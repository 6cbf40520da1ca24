/**
 * Space that is kept in a file for the moment in which the device is full. Then deletions and checkpoints need room
 * themselves, and without it a full device could never be emptied again. The file is given up at that moment, and made
 * again once there is room for it and some more, so that a device at its brim does not flutter; never a smaller one,
 * because what it has to hold, a whole log on its way into the file, does not get smaller either.
 */

import { randomFillSync } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

const CHUNK_BYTES = 256 * 1024;
/** Of the ballast, to be free besides it. */
const SPARE_SHARE = 0.25;

export class Ballast {
  private readonly file: string;
  private readonly bytes: number;

  constructor(path: string, bytes: number) {
    this.file = `${path}-ballast`;
    this.bytes = bytes;
  }

  /** Gives the space up. Returns whether there was any. */
  release(): boolean {
    if (!existsSync(this.file)) return false;
    rmSync(this.file, { force: true });
    return true;
  }

  /** Whether there is room again: the ballast is in place, or has been made. */
  restore(): boolean {
    if (existsSync(this.file) && statSync(this.file).size >= this.bytes) return true;
    this.release();
    return this.freeBytes() >= this.bytes * (1 + SPARE_SHARE) && this.make();
  }

  /** Random bytes, because a file system that compresses or finds holes would reserve nothing for zeros. */
  private make(): boolean {
    const fd = openSync(this.file, 'w', 0o600);
    try {
      const chunk = Buffer.alloc(CHUNK_BYTES);
      for (let left = this.bytes; left > 0; ) {
        left -= writeSync(fd, randomFillSync(chunk), 0, Math.min(left, CHUNK_BYTES));
      }
      fsyncSync(fd);
      return true;
    } catch {
      this.release();
      return false;
    } finally {
      closeSync(fd);
    }
  }

  private freeBytes(): number {
    const { bavail, bsize } = statfsSync(dirname(this.file));
    return bavail * bsize;
  }
}
