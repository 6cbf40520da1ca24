/**
 * The end of a persistent session's queue, in rows and in bytes of payload, and what gives way there: the message that
 * comes (`drop-newest`, as Mosquitto does), or those that have waited longest (`drop-oldest`). Rows of the spool are none
 * of its business, whatever is dropped here.
 *
 * Oldest rows go after the new one is committed, so that nothing is dropped for a message that never came; until then the
 * queue is longer by what one or two commits hold. A page of rows on its way to the outbox and a removal of rows exclude
 * each other, otherwise a row would be sent and dropped, and counted out twice.
 */
import type { Session } from './session.js';
import type { Shared } from './shared.js';

/** Whether a message with `bytes` of payload gets a row; if not, it has been counted as dropped. */
export function hasPlaceFor(bytes: number, session: Session, { limits, counters }: Shared): boolean {
  const { sessionQueueRowsMax, sessionQueueBytesMax, sessionQueuePolicy } = limits;
  if (session.rows < sessionQueueRowsMax && session.rowBytes + bytes <= sessionQueueBytesMax) return true;
  // What is on its way to the client cannot be taken back, and a message larger than the queue would only empty it.
  const couldFit = sessionQueueRowsMax > 0 && bytes <= sessionQueueBytesMax;
  if (sessionQueuePolicy === 'drop-oldest' && couldFit && session.outbox?.hasNoneWaiting !== true) return true;
  counters.dropped['session-queue-full']++;
  return false;
}

/** Brings the queue back within its limits, where they say `drop-oldest`. After every commit of a row, and after a page. */
export function trimQueue(session: Session, shared: Shared): void {
  const { limits, counters, store, statements } = shared;
  const { outbox } = session;
  if (limits.sessionQueuePolicy !== 'drop-oldest' || session.trimming || session.ended || outbox?.isReading) return;
  const rowsOver = session.rows - limits.sessionQueueRowsMax;
  const bytesOver = session.rowBytes - limits.sessionQueueBytesMax;
  if (rowsOver <= 0 && bytesOver <= 0) return;
  session.trimming = true;
  const of = [session.key, outbox?.takenUpTo ?? 0, rowsOver, bytesOver] as const;
  store.submit([statements.outgoingOldest(...of), statements.outgoingDropOldest(...of)], (error, results, at) => {
    session.trimming = false;
    const [bytes, rows] = error ? [0, 0] : [results[at] as number, results[at + 1] as number];
    session.rowBytes -= bytes;
    session.rows -= rows;
    counters.dropped['session-queue-full'] += rows;
    // First the page that had to wait: a queue that overflows all the time must be read nevertheless.
    session.outbox?.wake();
    if (rows > 0) trimQueue(session, shared);
  });
}
