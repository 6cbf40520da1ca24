/** How one ceiling in bytes is shared out among the file, its log and the space kept aside, all of which lie on the disk. */
const PAGE_BYTES = 4096;
const KIB = 1024;
/** Below this nothing would be left for messages. */
export const SPOOL_BYTES_MIN = 4096 * KIB;
/** A larger log between checkpoints saves nothing more; a smaller one makes every commit a checkpoint. */
const LOG_BYTES = { min: 256 * KIB, max: 4096 * KIB };
/** Of the ceiling, as far as that lies within the bounds. */
const LOG_SHARE = 1 / 16;
/** Pages of the tables that a group of rows touches besides its own. */
const SPARE_BYTES = 256 * KIB;
/** Of the file, for what is not a message on its way: retained values, sessions and their queues, and room to delete in. */
const RESERVE_SHARE = 0.1;

export interface Layout {
  /** The file's upper limit, in pages of 4 KiB. */
  readonly pagesMax: number;
  /** What messages may take of it. */
  readonly rowsBytesMax: number;
  readonly logPagesMax: number;
  readonly groupBytesMax: number;
  readonly ballastBytes: number;
}

/** `bytesMax` is at least `SPOOL_BYTES_MIN`. The log may grow by one group over its limit before it is checkpointed. */
export function layoutOf(bytesMax: number): Layout {
  const logBytes = Math.min(LOG_BYTES.max, Math.max(LOG_BYTES.min, Math.floor(bytesMax * LOG_SHARE)));
  const groupBytesMax = logBytes;
  // Enough to move a whole log into the file and to write one group more.
  const ballastBytes = logBytes + 2 * groupBytesMax + SPARE_BYTES;
  const fileBytes = bytesMax - ballastBytes - logBytes - groupBytesMax;
  return {
    pagesMax: Math.floor(fileBytes / PAGE_BYTES),
    rowsBytesMax: Math.floor(fileBytes * (1 - RESERVE_SHARE)),
    logPagesMax: Math.floor(logBytes / PAGE_BYTES),
    groupBytesMax,
    ballastBytes,
  };
}
