import { systemCodeOf } from '../lib/errors.js';

/** SQLite found no space, on the device or below the file's own limit. */
export function isFullError(error: unknown): boolean {
  return systemCodeOf(error)?.startsWith('SQLITE_FULL') === true;
}

/** For what is only tidy: on a full device it is left for the next start. */
export function unlessFull(write: () => unknown): void {
  try {
    write();
  } catch (error) {
    if (!isFullError(error)) throw error;
  }
}
