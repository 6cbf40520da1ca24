/**
 * A copy of a database that another process may be writing at this moment. Opening the file itself is out of the question:
 * its owner holds it alone, and a second connection could checkpoint it.
 *
 * The copy is sound because of the order: first the file, then its log, and the log's header is the same before and after.
 * Then the log has not been begun anew meanwhile, so whatever a checkpoint has moved into the file in between is also in
 * the copied log, and SQLite takes those pages from there; a commit that was being written is the torn end of the log,
 * which it leaves away. https://www.sqlite.org/fileformat2.html#wal_format
 */
import { closeSync, constants, copyFileSync, existsSync, mkdtempSync, openSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { sleep } from '../lib/clock.js';
import { HoldfastError } from '../lib/errors.js';

const WAL_HEADER_BYTES = 32;
/** A busy log is begun anew every few seconds; a copy that takes longer than that each time has to wait for a quiet moment. */
const ATTEMPTS = 20;
const PAUSE_MS = 50;

export interface Snapshot {
  readonly path: string;
  remove(): void;
}

/** Throws `usage.invalid` when there is no such file, and `spool.busy` when it is written faster than it can be copied. */
export async function takeSnapshot(path: string): Promise<Snapshot> {
  if (!existsSync(path)) throw new HoldfastError('usage.invalid', `There is no file ${path}`);
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-spool-'));
  const copy = join(folder, basename(path));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (copyOnce(path, copy)) return { path: copy, remove };
      await sleep(PAUSE_MS);
    }
  } catch (error) {
    remove();
    throw error;
  }
  remove();
  throw new HoldfastError('spool.busy', `${path} is written faster than it can be copied`, {
    hint: 'ask the running gateway instead (holdfast status), or try again in a quieter moment',
  });
}

/** Shared blocks where the file system can do that; returns whether the copy is one of a single moment. */
function copyOnce(path: string, copy: string): boolean {
  const before = walHeader(path);
  copyFileSync(path, copy, constants.COPYFILE_FICLONE);
  rmSync(`${copy}-wal`, { force: true });
  if (before.length > 0) {
    try {
      copyFileSync(`${path}-wal`, `${copy}-wal`, constants.COPYFILE_FICLONE);
    } catch {
      // Its owner has just closed it.
      return false;
    }
  }
  return walHeader(path).equals(before);
}

function walHeader(path: string): Buffer {
  const header = Buffer.alloc(WAL_HEADER_BYTES);
  try {
    const fd = openSync(`${path}-wal`, 'r');
    try {
      return header.subarray(0, readSync(fd, header, 0, header.length, 0));
    } finally {
      closeSync(fd);
    }
  } catch {
    return header.subarray(0, 0);
  }
}
