/**
 * A disk that is told what a process did, and answers what a power cut at this moment could leave of it.
 *
 * A write is safe once an fsync of its file that began after it has returned; a new, renamed or removed name once its
 * folder has been synced like that. Whatever is not safe may be there, be missing, or be torn. After a failed fsync the
 * writes that it was to make safe are gone for good, and so is what is written to the same blocks of that file later: the
 * kernel marks the pages clean, and ext4 never turns the blocks into readable ones.
 */
import { strict as assert } from 'node:assert';
import { dirname } from 'node:path';
import type { FileEvent, RecordedEvent } from './recording.js';

export type Change =
  | { readonly at: number; readonly offset: number; readonly data: Buffer }
  | { readonly at: number; readonly truncatedTo: number };

export interface DiskFile {
  safe: Buffer;
  pending: Change[];
  /** Numbers of the blocks that a failed fsync has taken; a write to them never reaches the disk. */
  readonly dead: Set<number>;
}

type Entry = DiskFile | 'folder';

interface NameChange {
  readonly at: number;
  readonly folder: string;
  readonly names: readonly (readonly [path: string, entry: Entry | null])[];
}

/** Name → bytes of every file. */
export type Image = ReadonlyMap<string, Buffer>;

export interface DiskOptions {
  /** A device that says it has flushed its cache, and has not. */
  readonly ignoresFlush?: boolean;
}

const BLOCK_BYTES = 4096;
/** They may be lost altogether: a start builds them anew. */
const VOLATILE = /-(shm|ballast)$/;

export class Disk {
  private readonly options: DiskOptions;
  private readonly names = new Map<string, Entry>();
  private readonly safeNames = new Map<string, Entry>();
  private pendingNames: NameChange[] = [];
  private readonly syncs = new Map<number, { at: number; file: Entry | undefined }>();
  private at = 0;
  /** Rises with every change of what is there, and of what is safe. */
  version = 0;
  safeVersion = 0;

  constructor(options: DiskOptions = {}, content: Image = new Map()) {
    this.options = options;
    for (const [path, bytes] of content) {
      for (let folder = dirname(path); folder !== '.'; folder = dirname(folder)) this.found(folder, 'folder');
      this.found(path, { safe: bytes, pending: [], dead: new Set() });
    }
  }

  step(event: RecordedEvent): void {
    this.at++;
    if (event.kind === 'start') this.syncs.clear();
    if ('path' in event && !VOLATILE.test(event.path)) this.change(event);
  }

  /** Something is not safe, so that more than one image is possible. */
  get isDirty(): boolean {
    return (
      this.pendingNames.length > 0 || [...this.names.values()].some((it) => it !== 'folder' && it.pending.length > 0)
    );
  }

  /** How many changes of names are not safe; an image may keep the first so many of them. */
  get pendingNameCount(): number {
    return this.pendingNames.length;
  }

  image(namesKept: number, bytesOf: (file: DiskFile) => Buffer): Image {
    const names = new Map(this.safeNames);
    for (const change of this.pendingNames.slice(0, namesKept)) rename(names, change);
    const image = new Map<string, Buffer>();
    for (const [path, entry] of names) {
      if (entry === 'folder' || !this.isReachable(names, path)) continue;
      image.set(path, bytesOf(entry));
    }
    return image;
  }

  private found(path: string, entry: Entry): void {
    this.names.set(path, entry);
    this.safeNames.set(path, entry);
  }

  private change(event: FileEvent): void {
    switch (event.kind) {
      case 'create':
        this.name(event.path, [[event.path, { safe: Buffer.alloc(0), pending: [], dead: new Set() }]]);
        return;
      case 'folder':
        this.name(event.path, [[event.path, 'folder']]);
        return;
      case 'unlink':
        this.name(event.path, [[event.path, null]]);
        return;
      case 'rename': {
        assert.equal(dirname(event.path), dirname(event.to), 'renames within a folder are understood');
        this.name(event.to, [
          [event.path, null],
          [event.to, this.file(event.path)],
        ]);
        return;
      }
      case 'write':
        this.file(event.path).pending.push({ at: this.at, offset: event.offset, data: event.data });
        this.version++;
        return;
      case 'truncate':
        this.file(event.path).pending.push({ at: this.at, truncatedTo: event.bytes });
        this.version++;
        return;
      case 'sync-begin':
        this.syncs.set(event.id, { at: this.at, file: this.names.get(event.path) });
        return;
      case 'sync-end':
        if (!this.options.ignoresFlush) this.synced(event.id, event.path);
        return;
      case 'sync-failed':
        this.syncFailed(event.id);
        return;
    }
  }

  private synced(id: number, path: string): void {
    const { at, file } = this.begun(id);
    this.safeVersion++;
    this.version++;
    if (file && file !== 'folder') {
      file.safe = applied(file, (change) => change.at < at);
      file.pending = file.pending.filter((change) => change.at > at);
      return;
    }
    const isSafe = (change: NameChange) => change.folder === path && change.at < at;
    for (const change of this.pendingNames) if (isSafe(change)) rename(this.safeNames, change);
    this.pendingNames = this.pendingNames.filter((change) => !isSafe(change));
  }

  private syncFailed(id: number): void {
    const { at, file } = this.begun(id);
    if (!file || file === 'folder') return;
    for (const change of file.pending) {
      if (change.at > at || !('data' in change)) continue;
      const end = change.offset + change.data.length;
      for (let block = blockOf(change.offset); block * BLOCK_BYTES < end; block++) file.dead.add(block);
    }
    this.safeVersion++;
    this.version++;
  }

  private begun(id: number): { at: number; file: Entry | undefined } {
    const sync = this.syncs.get(id);
    assert(sync, 'an fsync that ends has begun');
    this.syncs.delete(id);
    return sync;
  }

  private name(path: string, names: NameChange['names']): void {
    const change = { at: this.at, folder: dirname(path), names };
    rename(this.names, change);
    this.pendingNames.push(change);
    this.version++;
  }

  private file(path: string): DiskFile {
    const entry = this.names.get(path);
    assert(entry && entry !== 'folder', `${path} has been created`);
    return entry;
  }

  private isReachable(names: ReadonlyMap<string, Entry>, path: string): boolean {
    for (let folder = dirname(path); folder !== '.'; folder = dirname(folder))
      if (names.get(folder) !== 'folder') return false;
    return true;
  }
}

function rename(names: Map<string, Entry>, { names: changes }: NameChange): void {
  for (const [path, entry] of changes) {
    if (entry) names.set(path, entry);
    else names.delete(path);
  }
}

function blockOf(offset: number): number {
  return Math.floor(offset / BLOCK_BYTES);
}

/** The file's bytes after those of its pending changes that `reached` the disk, or the pieces of them that it returns. */
export function applied(file: DiskFile, reached: (change: Change) => boolean | readonly Change[]): Buffer {
  if (file.pending.length === 0) return file.safe;
  const bytes = Buffer.alloc(file.pending.reduce((size, change) => Math.max(size, endOf(change)), file.safe.length));
  file.safe.copy(bytes);
  let size = file.safe.length;
  for (const change of file.pending) {
    const survived = reached(change);
    for (const piece of survived === true ? [change] : survived || []) {
      if ('data' in piece) {
        put(bytes, piece.offset, piece.data, file.dead);
        size = Math.max(size, endOf(piece));
      } else {
        bytes.fill(0, piece.truncatedTo);
        size = piece.truncatedTo;
      }
    }
  }
  return bytes.subarray(0, size);
}

function endOf(change: Change): number {
  return 'data' in change ? change.offset + change.data.length : change.truncatedTo;
}

function put(bytes: Buffer, offset: number, data: Buffer, dead: ReadonlySet<number>): void {
  if (dead.size === 0) {
    data.copy(bytes, offset);
    return;
  }
  for (let at = offset, end = offset + data.length; at < end; ) {
    const next = Math.min(end, (blockOf(at) + 1) * BLOCK_BYTES);
    if (!dead.has(blockOf(at))) data.copy(bytes, at, at - offset, next - offset);
    at = next;
  }
}
