import type { Source } from '../model/row.js';
import { ACK_RANGES_MAX, type Ack, type AckRange } from '../wire/ack.js';
import type { LedgerEntry } from './historian.js';

/**
 * What the ledger holds of a gateway's epoch, as a statement for the gateway. It is made of the ledger alone, so it is right
 * whichever worker has stored what. Of more holes than fit those around `around` are told: the statement then begins behind
 * the last hole that is left out, or ends before the first one.
 */
export function ackOf(source: Source, entry: LedgerEntry | undefined, around: AckRange): Ack {
  const { holes = [], last = 0 } = entry ?? {};
  if (holes.length <= ACK_RANGES_MAX) return { source, from: 1, through: last, missing: holes };
  const above = holes.findIndex(({ to }) => to >= around.from);
  const middle = above < 0 ? holes.length : above;
  const start = Math.max(0, Math.min(middle - ACK_RANGES_MAX / 2, holes.length - ACK_RANGES_MAX));
  const missing = holes.slice(start, start + ACK_RANGES_MAX);
  const [before, after] = [holes[start - 1], holes[start + ACK_RANGES_MAX]];
  return { source, from: before ? before.to + 1 : 1, through: after ? after.from - 1 : last, missing };
}
