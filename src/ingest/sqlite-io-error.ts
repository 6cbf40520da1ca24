import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';

/**
 * After a failed write or fsync the kernel marks the pages clean although the disk does not hold them: it shows them to
 * every reader, later fsyncs succeed, and the next power cut takes them away (Rebello et al., "Can Applications Recover
 * from fsync Failures?", ATC 2020). So the process must stop at the first such error, leave a mark, and bring the files
 * onto new blocks before SQLite opens them again. A checkpoint in between would make it worse.
 */

const CHUNK_BYTES = 1024 * 1024;
const markOf = (path: string) => `${path}-ioerr`;

/** Leaves the mark for the next start. A disk that does not even take this has nothing left to protect. */
export function markIoError(path: string, reason: string): void {
  try {
    writeFileSync(markOf(path), `${reason}\n`, { flush: true });
    syncDirectory(path);
  } catch {}
}

/** Call before SQLite opens the file. Returns whether there was a mark, and the files have been renewed. */
export function healAfterIoError(path: string): boolean {
  if (!existsSync(markOf(path))) return false;
  for (const file of [`${path}-wal`, path]) if (existsSync(file)) renew(file);
  syncDirectory(path);
  rmSync(markOf(path));
  syncDirectory(path);
  return true;
}

/** Reads and writes every byte: a copy by the file system could share the very blocks that were never written. */
function renew(file: string): void {
  const copy = `${file}.new`;
  const from = openSync(file, 'r');
  try {
    const to = openSync(copy, 'w');
    try {
      const chunk = Buffer.alloc(CHUNK_BYTES);
      for (let length = readSync(from, chunk); length > 0; length = readSync(from, chunk))
        for (let done = 0; done < length; ) done += writeSync(to, chunk, done, length - done);
      fsyncSync(to);
    } finally {
      closeSync(to);
    }
  } finally {
    closeSync(from);
  }
  renameSync(copy, file);
}

function syncDirectory(path: string): void {
  const directory = openSync(dirname(path), 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
