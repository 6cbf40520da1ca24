/** Reads what native/recorder.c has written down. */
import { readFileSync } from 'node:fs';

export type FileEvent =
  | { readonly kind: 'create' | 'unlink' | 'folder'; readonly path: string }
  | { readonly kind: 'write'; readonly path: string; readonly offset: number; readonly data: Buffer }
  | { readonly kind: 'truncate'; readonly path: string; readonly bytes: number }
  | { readonly kind: 'rename'; readonly path: string; readonly to: string }
  /** `id` tells which end belongs to which begin; it starts anew with each process. */
  | { readonly kind: 'sync-begin' | 'sync-end' | 'sync-failed'; readonly path: string; readonly id: number };

export type WireEvent =
  /** A process began: connections of an earlier one are gone. */
  | { readonly kind: 'start' }
  /** Stands where the call began; holds what the kernel took of it. */
  | { readonly kind: 'sent' | 'received'; readonly fd: number; readonly data: Buffer }
  | { readonly kind: 'hung-up'; readonly fd: number };

export type RecordedEvent = FileEvent | WireEvent;

interface Sending {
  kind: 'sent';
  fd: number;
  data: Buffer;
}

const MAGIC = 0xc7;
const HEAD_BYTES = 20;

/** The record of one or several processes, one after the other, in the order in which things happened. */
export function readRecording(file: string): RecordedEvent[] {
  const bytes = readFileSync(file);
  const events: RecordedEvent[] = [];
  const sending = new Map<number, Sending>();
  for (let at = 0; at < bytes.length; ) {
    if (bytes[at] !== MAGIC) throw new Error(`${file} is damaged at ${at}`);
    const kind = String.fromCharCode(bytes[at + 1] as number);
    const pathEnd = at + HEAD_BYTES + bytes.readUInt16LE(at + 2);
    const fd = bytes.readInt32LE(at + 4);
    const offset = Number(bytes.readBigInt64LE(at + 8));
    const end = pathEnd + bytes.readUInt32LE(at + 16);
    const path = bytes.toString('utf8', at + HEAD_BYTES, pathEnd);
    const data = bytes.subarray(pathEnd, end);
    at = end;
    if (kind === 'o') {
      const event: Sending = { kind: 'sent', fd, data };
      sending.set(fd, event);
      events.push(event);
    } else if (kind === 'k') {
      // A process that was killed between the two may have sent all of it.
      const event = sending.get(fd);
      if (event) event.data = event.data.subarray(0, Math.max(0, offset));
      sending.delete(fd);
    } else {
      if (kind === 'S') sending.clear();
      events.push(eventOf(kind, fd, offset, path, data));
    }
  }
  return events;
}

function eventOf(kind: string, fd: number, offset: number, path: string, data: Buffer): RecordedEvent {
  switch (kind) {
    case 'S':
      return { kind: 'start' };
    case 'C':
      return { kind: 'create', path };
    case 'U':
      return { kind: 'unlink', path };
    case 'D':
      return { kind: 'folder', path };
    case 'W':
      return { kind: 'write', path, offset, data };
    case 'T':
      return { kind: 'truncate', path, bytes: offset };
    case 'R':
      return { kind: 'rename', path, to: data.toString() };
    case 'b':
      return { kind: 'sync-begin', path, id: offset };
    case 'e':
      return { kind: 'sync-end', path, id: offset };
    case 'x':
      return { kind: 'sync-failed', path, id: offset };
    case 'i':
      return { kind: 'received', fd, data };
    case 'h':
      return { kind: 'hung-up', fd };
    default:
      throw new Error(`unknown record ${kind}`);
  }
}
