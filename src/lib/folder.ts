import { closeSync, fsyncSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';

/** Creates the folder if needed, durably: a new folder's name is only on disk once its parent is synced. */
export function makeFolder(folder: string): void {
  const made = mkdirSync(folder, { recursive: true });
  if (made === undefined) return;
  for (let dir = folder; dir.length >= made.length; dir = dirname(dir)) {
    const fd = openSync(dirname(dir), 'r');
    fsyncSync(fd);
    closeSync(fd);
  }
}
