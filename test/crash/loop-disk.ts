/**
 * A real ext4 on a loop device that can be stopped dead, and whose device can be made to fail writes for a while: its
 * sectors live in a small tmpfs, and when that is full, writes to sectors that never held anything fail.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';
import { buildShutdown, skipWithoutGcc } from './native.js';

const DISK_MIB = 96;
/** Less than the disk, so that it can be filled. */
const BACKING_MIB = 64;
const JOURNAL_MIB = 4;
const BLOCK_BYTES = 4096;

/** A reason to skip what needs one of these disks, or false. */
export const skipWithoutLoop: string | false = reasonToSkip();

function reasonToSkip(): string | false {
  if (skipWithoutGcc) return skipWithoutGcc;
  if (process.getuid?.() !== 0) return 'needs root, to mount a file system';
  if (!peer('losetup') || !peer('mkfs.ext4')) return 'losetup or mkfs.ext4 is not installed';
  try {
    execFileSync('losetup', ['-f'], { stdio: 'ignore' });
    return false;
  } catch {
    return 'there are no loop devices here';
  }
}

export class LoopDisk {
  /** Where it is mounted. */
  readonly folder: string;
  private readonly backing: string;
  private readonly device: string;
  private readonly shutdown: string;

  private constructor(folder: string, backing: string, device: string, shutdown: string) {
    this.folder = folder;
    this.backing = backing;
    this.device = device;
    this.shutdown = shutdown;
  }

  static open(t: TestContext): LoopDisk {
    const shutdown = buildShutdown(t);
    const dir = tempDir(t);
    const [folder, backing] = [join(dir, 'mnt'), join(dir, 'backing')] as const;
    mkdirSync(folder);
    mkdirSync(backing);
    run('mount', '-t', 'tmpfs', '-o', `size=${BACKING_MIB}M`, 'tmpfs', backing);
    const image = join(backing, 'disk');
    run('truncate', '-s', `${DISK_MIB}M`, image);
    run('mkfs.ext4', '-q', '-F', '-b', `${BLOCK_BYTES}`, '-J', `size=${JOURNAL_MIB}`, image);
    const device = execFileSync('losetup', ['-f', '--show', image], { encoding: 'utf8' }).trim();
    const disk = new LoopDisk(folder, backing, device, shutdown);
    run('mount', device, folder);
    disk.fillJournal();
    return disk;
  }

  /** The lights go out, and on again: what the kernel had not written is gone, and the journal is replayed. */
  async cut(): Promise<void> {
    run(this.shutdown, this.folder);
    await this.unmount();
    run('mount', this.device, this.folder);
  }

  /** From now on, writes to sectors that were never written fail; or no longer. */
  failWrites(fail: boolean): void {
    const ballast = join(this.backing, 'ballast');
    if (fail) writeUntilFull(ballast);
    else rmSync(ballast);
  }

  async close(): Promise<void> {
    await this.unmount();
    run('losetup', '-d', this.device);
    run('umount', this.backing);
  }

  /** Its journal's sectors must be there before writes fail, or the whole file system would stop. */
  private fillJournal(): void {
    for (let i = 0; i * BLOCK_BYTES * 2 < JOURNAL_MIB * 1024 * 1024; i++) {
      const file = join(this.folder, `fill-${i % 5}`);
      const fd = openSync(file, 'w');
      writeSync(fd, 'x');
      fsyncSync(fd);
      closeSync(fd);
    }
    for (let i = 0; i < 5; i++) rmSync(join(this.folder, `fill-${i}`));
  }

  /** A lazy unmount would let the next mount find the old one. */
  private async unmount(): Promise<void> {
    const busy = `/sys/fs/ext4/${this.device.slice('/dev/'.length)}`;
    await until('the file system is unmounted', () => {
      if (!existsSync(busy)) return true;
      try {
        run('umount', this.folder);
      } catch {}
      return false;
    });
  }
}

function writeUntilFull(file: string): void {
  const chunk = Buffer.alloc(1024 * 1024);
  for (const size of [chunk.length, BLOCK_BYTES]) {
    try {
      for (;;) writeFileSync(file, chunk.subarray(0, size), { flag: 'a' });
    } catch {}
  }
}

function run(program: string, ...args: string[]): void {
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
