/**
 * What ended links say about the rows that were on their way, as a pure state machine. A batch at which the connection ends
 * again and again must not stand in the way for ever, and must not be thrown away because a line flaps either.
 *
 * Twice at the same first row: one batch at a time, so that it is known which one it is. Three times alone, or refused by
 * name: it is halved, down to one row. One row that ends the link three times alone is *accused*; whether it is to blame
 * or the cloud takes nothing at all, only another row can tell (see `Replayer.confront`).
 */
import { assertNever } from '../lib/assert.js';
import type { Seq } from '../model/ids.js';

const DROPS_BEFORE_ALONE = 2;
const ALONE_DROPS_MAX = 3;

export interface Suspect {
  readonly first: Seq;
  readonly last: Seq;
  readonly rows: number;
}

export interface Suspicion {
  /** The batch at whose first row the last link ended. */
  readonly batch: Suspect;
  readonly drops: number;
  readonly aloneDrops: number;
  /** Up to here batches are sent one at a time, with at most `rowsMax` rows. */
  readonly until: Seq;
  readonly rowsMax: number;
  readonly cause: string;
}

export type SuspicionEvent =
  /** The peer ended the link soon after the oldest batch in flight had been sent; `alone`: nothing else was. */
  | { readonly type: 'dropped'; readonly batch: Suspect; readonly alone: boolean; readonly cause: string }
  /** The peer said that it does not take this batch, whatever happens. */
  | { readonly type: 'refused'; readonly batch: Suspect; readonly cause: string }
  | { readonly type: 'released'; readonly upTo: Seq }
  /** Another row was not taken either: it is not this one. */
  | { readonly type: 'cleared' };

export interface Caution {
  readonly until: Seq;
  readonly rowsMax: number;
}

export function nextSuspicion(now: Suspicion | null, event: SuspicionEvent): Suspicion | null {
  switch (event.type) {
    case 'dropped':
      return accuse(now, event, event.alone ? 1 : 0);
    case 'refused':
      return accuse(now, event, ALONE_DROPS_MAX);
    case 'released':
      if (!now || event.upTo < now.batch.first) return now;
      return event.upTo >= now.until ? null : { ...now, drops: 0, aloneDrops: 0 };
    case 'cleared':
      return now && { ...now, aloneDrops: 0 };
    default:
      return assertNever(event, 'suspicion event');
  }
}

/** How the next link is to go about it; null: as always. */
export function cautionOf(suspicion: Suspicion | null): Caution | null {
  if (!suspicion) return null;
  const { drops, aloneDrops, rowsMax, until } = suspicion;
  const careful = drops >= DROPS_BEFORE_ALONE || aloneDrops > 0 || Number.isFinite(rowsMax);
  return careful ? { until, rowsMax } : null;
}

/** The single row that ends every link, if it has come to that. */
export function accused(suspicion: Suspicion | null): Seq | null {
  if (suspicion?.batch.rows !== 1 || suspicion.aloneDrops < ALONE_DROPS_MAX) return null;
  return suspicion.batch.first;
}

function accuse(
  now: Suspicion | null,
  { batch, cause }: { readonly batch: Suspect; readonly cause: string },
  weight: number,
): Suspicion {
  const within = now !== null && batch.first <= now.until;
  const again = now !== null && batch.first === now.batch.first;
  const halving = within && Number.isFinite(now.rowsMax);
  const aloneDrops = (again ? now.aloneDrops : 0) + weight;
  const next: Suspicion = {
    batch,
    drops: (again ? now.drops : 0) + 1,
    aloneDrops,
    until: Math.max(batch.last, within ? now.until : 0) as Seq,
    rowsMax: within ? now.rowsMax : Number.POSITIVE_INFINITY,
    cause,
  };
  // Once it has been proved that one of these rows does it, a smaller batch that ends the link needs no further proof.
  const guilty = aloneDrops >= ALONE_DROPS_MAX || (halving && weight > 0);
  if (!guilty || batch.rows === 1) return next;
  return { ...next, rowsMax: Math.ceil(batch.rows / 2), drops: 0, aloneDrops: 0 };
}
