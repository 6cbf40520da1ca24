/**
 * Payloads and properties are views of what was read from a socket; kept for long, a small one would keep all of that in
 * memory. This is the view itself where it is most of its memory, and otherwise a copy.
 */
export function owned<Bytes extends Uint8Array | null>(view: Bytes): Bytes | Uint8Array {
  return view && view.buffer.byteLength > 2 * view.length ? new Uint8Array(view) : view;
}
