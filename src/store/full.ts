import { systemCodeOf } from '../lib/errors.js';

/** SQLite found no space, on the device or below the file's own limit. */
export function isFullError(error: unknown): boolean {
  return systemCodeOf(error)?.startsWith('SQLITE_FULL') === true;
}

/** For what can be left undone on a full device. Returns whether it was done. */
export function unlessFull(write: () => unknown): boolean {
  try {
    write();
    return true;
  } catch (error) {
    if (!isFullError(error)) throw error;
    return false;
  }
}
