import { closeSync, existsSync, fsyncSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Creates the folder and its parents if needed, durably: a new folder's name is only on disk once its parent is synced.
 * One level at a time, because Node's own recursive creation never returns on a file system that refuses new folders.
 */
export function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  mkdirSync(folder);
  syncFolder(parent);
}

/** Makes the names in a folder durable: of files that were created, renamed or removed in it. */
export function syncFolder(folder: string): void {
  const fd = openSync(folder, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
