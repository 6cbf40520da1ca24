import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

const gzipAsync = promisify(gzip);
/** Level 9 costs twice the time for under one per cent; other algorithms gain nothing in size worth a dependency. */
const LEVEL = 6;

/** gzip, off the event loop. */
export function compress(bytes: Uint8Array): Promise<Buffer> {
  return gzipAsync(bytes, { level: LEVEL });
}
