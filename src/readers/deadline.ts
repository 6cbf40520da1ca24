/**
 * Calls `onLate` after `ms` unless the returned function was called before. When the event loop was blocked, its timers
 * run before its sockets are read, and an answer that has long arrived would count as late. Two more turns of the loop let
 * the sockets speak first, so a stall of this process is never blamed on the device.
 */
export function deadline(ms: number, onLate: () => void): () => void {
  let cancelled = false;
  const expire = () => {
    if (!cancelled) onLate();
  };
  const timer = setTimeout(() => setImmediate(() => setImmediate(expire)), ms);
  return () => {
    cancelled = true;
    clearTimeout(timer);
  };
}
