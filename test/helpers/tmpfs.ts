import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { assertAccounts } from './accounts.js';

export const canMount = process.getuid?.() === 0 ? false : 'mounting needs root';

export interface SmallDisk {
  readonly dir: string;
  /** Fills what is left, but for `leaveBytes`. */
  fill(leaveBytes?: number): void;
  /** Gives it back. */
  free(): void;
}

/** A file system of `mib` MiB, for real "no space left on device". Gone with the test. */
export function smallDisk(t: TestContext, mib: number): SmallDisk {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-disk-'));
  const run = (program: string, ...args: string[]) => {
    const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' });
    if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}`);
  };
  run('mount', '-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', dir);
  t.after(async () => {
    try {
      await assertAccounts(dir);
    } finally {
      run('umount', '-l', dir);
      rmSync(dir, { recursive: true });
    }
  });
  const filler = join(dir, 'filler');
  return {
    dir,
    fill(leaveBytes = 0) {
      const fd = openSync(filler, 'w');
      const chunk = Buffer.alloc(64 * 1024, 1);
      try {
        for (;;) writeSync(fd, chunk);
      } catch {
        // Full.
      } finally {
        closeSync(fd);
      }
      if (leaveBytes > 0) truncateSync(filler, Math.max(0, statSync(filler).size - leaveBytes));
    },
    free: () => rmSync(filler, { force: true }),
  };
}
