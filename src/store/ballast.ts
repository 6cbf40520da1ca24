/**
 * Space that is kept in a file for the moment in which the device is full. Then deletions and checkpoints need room
 * themselves, and without it a full device could never be emptied again. The file is given up at that moment, and made
 * again once there is room for it and as much again, so that a device at its brim does not flutter.
 */

import { randomFillSync } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

const CHUNK_BYTES = 256 * 1024;
const LEAST_PARTS = 4;

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

  /**
   * Whether there is room again: the ballast is in place, or has been made. Where space is scarce it is a smaller one, so
   * that as much stays free; below a quarter it would not serve its purpose.
   */
  restore(): boolean {
    const least = this.bytes / LEAST_PARTS;
    if (existsSync(this.file) && statSync(this.file).size >= least) return true;
    this.release();
    const bytes = Math.floor(Math.min(this.bytes, this.freeBytes() / 2));
    return bytes >= least && this.make(bytes);
  }

  /** Random bytes, because a file system that compresses or finds holes would reserve nothing for zeros. */
  private make(bytes: number): boolean {
    const fd = openSync(this.file, 'w', 0o600);
    try {
      const chunk = Buffer.alloc(CHUNK_BYTES);
      for (let left = bytes; left > 0; ) {
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
