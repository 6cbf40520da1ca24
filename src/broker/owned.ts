/**
 * A payload is a view of what was read from a socket; kept for long it would keep all of that in memory. This is the
 * payload itself where it has its own memory, and otherwise a copy.
 */
export function owned(payload: Uint8Array): Uint8Array {
  return payload.buffer.byteLength > 2 * payload.length ? new Uint8Array(payload) : payload;
}
