/**
 * Finds commits that SQLite would lose without a word. It reads its write-ahead log up to the first frame whose checksum is
 * wrong and takes the rest for the unsynced end of a power cut; one flipped bit in the middle therefore drops every commit
 * behind it, and `integrity_check` still says ok. https://www.sqlite.org/fileformat2.html#the_write_ahead_log
 *
 *     header = magic, version, page size, checkpoint, salt × 2, checksum × 2          all big-endian u32
 *     frame  = page number, pages of the file after a commit or 0, salt × 2, checksum × 2, page
 *
 * A power cut damages the last transaction alone, because the next one begins only after a sync. So frames of the current
 * salt that come after a commit behind the first bad frame prove that something synced was destroyed.
 */
import { closeSync, existsSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC = 0x377f0682;
const PAGE_BYTES_MIN = 512;
const PAGE_BYTES_MAX = 65_536;
/** The log is checkpointed far below this; one that is larger is not of this program, and not worth the memory. */
const LOG_BYTES_MAX = 512 * 1024 * 1024;

export interface WalReport {
  /** Frames that SQLite will read, and those it will not although a commit made them durable. */
  readonly frames: number;
  readonly lostFrames: number;
  /** The file's first page is among what SQLite will read: a checkpoint that was cut short may have torn the one in the file. */
  readonly hasFirstPage: boolean;
}

const NOTHING: WalReport = { frames: 0, lostFrames: 0, hasFirstPage: false };

type Sums = readonly [number, number];

/** What is in the log of the database at `path`. */
export function scanWal(path: string): WalReport {
  const file = `${path}-wal`;
  if (!existsSync(file)) return NOTHING;
  const log = readLog(file);
  if (log.length < HEADER_BYTES) return NOTHING;
  const littleEndian = log.readUInt32BE(0) === MAGIC;
  const pageBytes = log.readUInt32BE(8);
  const sound = sumOf(log, 0, 24, [0, 0], littleEndian);
  if ((log.readUInt32BE(0) & ~1) >>> 0 !== MAGIC || !sameSums(sound, log, 24)) {
    return { ...NOTHING, lostFrames: framesNotIn(path, log) };
  }
  return scanFrames(new Frames(log, pageBytes), littleEndian, sound);
}

function readLog(file: string): Buffer {
  const fd = openSync(file, 'r');
  try {
    return fstatSync(fd).size > LOG_BYTES_MAX ? Buffer.alloc(0) : readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

class Frames {
  readonly count: number;
  private readonly log: Buffer;
  private readonly stride: number;

  constructor(log: Buffer, pageBytes: number) {
    this.log = log;
    this.stride = FRAME_HEADER_BYTES + pageBytes;
    this.count = Math.floor((log.length - HEADER_BYTES) / this.stride);
  }

  headerSalts(): Buffer {
    return this.log.subarray(16, 24);
  }

  at(n: number): number {
    return HEADER_BYTES + n * this.stride;
  }

  /** Pages that the file has after the commit which this frame ends; 0 when it ends none. */
  commitPages(n: number): number {
    return this.log.readUInt32BE(this.at(n) + 4);
  }

  pageNumber(n: number): number {
    return this.log.readUInt32BE(this.at(n));
  }

  page(n: number): Buffer {
    return this.log.subarray(this.at(n) + FRAME_HEADER_BYTES, this.at(n) + this.stride);
  }

  salts(n: number): Buffer {
    return this.log.subarray(this.at(n) + 8, this.at(n) + 16);
  }

  storedSums(n: number): Sums {
    return [this.log.readUInt32BE(this.at(n) + 16), this.log.readUInt32BE(this.at(n) + 20)];
  }

  /** Whether the frame follows on one whose running checksum is `before`, and has `salts`. */
  follows(n: number, before: Sums, salts: Buffer, littleEndian: boolean): boolean {
    if (!this.salts(n).equals(salts)) return false;
    const at = this.at(n);
    const head = sumOf(this.log, at, 8, before, littleEndian);
    const whole = sumOf(this.log, at + FRAME_HEADER_BYTES, this.stride - FRAME_HEADER_BYTES, head, littleEndian);
    return sameSums(whole, this.log, at + 16);
  }
}

function scanFrames(frames: Frames, littleEndian: boolean, headerSums: Sums): WalReport {
  const salts = frames.headerSalts();
  let good = 0;
  let firstPageAt = Number.POSITIVE_INFINITY;
  let lastCommit = -1;
  for (let sums = headerSums; good < frames.count && frames.follows(good, sums, salts, littleEndian); good++) {
    sums = frames.storedSums(good);
    if (frames.pageNumber(good) === 1) firstPageAt = Math.min(firstPageAt, good);
    if (frames.commitPages(good) > 0) lastCommit = good;
  }
  // Behind the bad frame each one is still checked against what the one before it says of itself.
  let committed = false;
  let lostFrames = 0;
  for (let n = good + 1; n < frames.count; n++) {
    if (!frames.follows(n, frames.storedSums(n - 1), salts, littleEndian)) continue;
    if (committed) lostFrames++;
    committed ||= frames.commitPages(n) > 0;
  }
  return { frames: good, lostFrames, hasFirstPage: firstPageAt <= lastCommit };
}

/**
 * A header is only ever rewritten when every frame behind it has been copied into the file. So when it does not read, as
 * after a power cut in that very moment, the pages of the frames are the file's pages, or commits are lost.
 */
function framesNotIn(path: string, log: Buffer): number {
  if (!existsSync(path)) return 0;
  const fd = openSync(path, 'r');
  try {
    const head = Buffer.alloc(18);
    readSync(fd, head, 0, head.length, 0);
    const stored = head.readUInt16BE(16);
    const pageBytes = stored === 1 ? PAGE_BYTES_MAX : stored;
    if (pageBytes < PAGE_BYTES_MIN || (pageBytes & (pageBytes - 1)) !== 0) return 0;
    const frames = new Frames(log, pageBytes);
    const newest = new Map<number, number>();
    let end = 0;
    while (end < frames.count && frames.salts(end).equals(frames.salts(0))) end++;
    while (end > 0 && frames.commitPages(end - 1) === 0) end--;
    for (let n = 0; n < end; n++) newest.set(frames.pageNumber(n), n);
    const page = Buffer.alloc(pageBytes);
    const pages = end > 0 ? frames.commitPages(end - 1) : 0;
    let missing = 0;
    for (const [number, n] of newest) {
      if (number > pages) continue;
      const length = readSync(fd, page, 0, pageBytes, (number - 1) * pageBytes);
      if (length < pageBytes || !page.equals(frames.page(n))) missing++;
    }
    return missing;
  } finally {
    closeSync(fd);
  }
}

function sumOf(log: Buffer, at: number, bytes: number, [first, second]: Sums, littleEndian: boolean): Sums {
  let a = first;
  let b = second;
  const view = new DataView(log.buffer, log.byteOffset + at, bytes);
  for (let n = 0; n < bytes; n += 8) {
    a = (a + view.getUint32(n, littleEndian) + b) >>> 0;
    b = (b + view.getUint32(n + 4, littleEndian) + a) >>> 0;
  }
  return [a, b];
}

function sameSums([a, b]: Sums, log: Buffer, at: number): boolean {
  return a === log.readUInt32BE(at) && b === log.readUInt32BE(at + 4);
}
