/**
 * What is on its way to the cloud, as a pure state machine: no clock, no socket, no disk.
 *
 * Invariants: flights are in the order of their seqs and do not overlap; `after` is the last seq that has been read for
 * sending; rows are released only as the unbroken run of acknowledged flights from the oldest one on, whatever the order in
 * which the acknowledgements came; losing the link forgets every flight, so that what was not released is sent again.
 */
import { assert, assertNever } from '../lib/assert.js';
import type { Seq } from '../model/ids.js';

export interface Flight {
  readonly first: Seq;
  readonly last: Seq;
  readonly rows: number;
  readonly acknowledged: boolean;
}

export interface Window {
  /** Everything up to here has been released. */
  readonly released: Seq;
  /** Everything up to here has been read for sending. */
  readonly after: Seq;
  readonly flights: readonly Flight[];
}

export type WindowEvent =
  | { readonly type: 'sent'; readonly first: Seq; readonly last: Seq; readonly rows: number }
  | { readonly type: 'acknowledged'; readonly last: Seq }
  | { readonly type: 'lost' };

export interface Step {
  readonly window: Window;
  /** Delete everything up to here. */
  readonly release: Seq | null;
}

export function openWindow(released: Seq): Window {
  return { released, after: released, flights: [] };
}

export function next(window: Window, event: WindowEvent): Step {
  switch (event.type) {
    case 'sent': {
      const { first, last, rows } = event;
      assert(first > window.after && last >= first, 'batches are sent in the order of seq', {
        first,
        after: window.after,
      });
      const flight: Flight = { first, last, rows, acknowledged: false };
      return { window: { ...window, after: last, flights: [...window.flights, flight] }, release: null };
    }
    case 'acknowledged': {
      const at = window.flights.findIndex((flight) => flight.last === event.last);
      assert(at >= 0, 'an acknowledgement is for something in flight', { last: event.last });
      const flights = window.flights.map((flight, i) => (i === at ? { ...flight, acknowledged: true } : flight));
      const open = flights.findIndex((flight) => !flight.acknowledged);
      const done = open < 0 ? flights.length : open;
      if (done === 0) return { window: { ...window, flights }, release: null };
      const released = (flights[done - 1] as Flight).last;
      return { window: { ...window, released, flights: flights.slice(done) }, release: released };
    }
    case 'lost':
      return { window: { ...window, after: window.released, flights: [] }, release: null };
    default:
      return assertNever(event, 'window event');
  }
}
