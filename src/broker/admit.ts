/** The seam between the broker and whoever makes its messages durable. */
import type { Message } from '../model/message.js';
import type { Identity } from '../model/row.js';
import type { UnitDone } from '../store/store.js';
import type { Op } from '../store/tables.js';

export interface Publication extends Message {
  /** Client id of the publisher, or null for one in this process. */
  readonly sender: string | null;
  /** Set when the publisher sends the message again if it is not acknowledged: whether its connection has ended. */
  readonly isAbandoned?: (() => boolean) | undefined;
  /** The publisher can be told that the message is not taken, and that it has to keep it: error `spool.refused`. */
  readonly refusable?: boolean;
}

/**
 * The durability seam. The broker calls it with the operations that belong to a message; the one who joins broker and
 * spool adds the spool row after them where the topic is bridged, and submits all as one unit. `done` comes after the
 * COMMIT; it may be held back for some messages while later ones pass, and the broker keeps the order of
 * acknowledgements by itself. `results[at + i]` is what operation i returned, NaN where a guard has skipped it. The first
 * operation of a QoS 2 message may be a guard: a duplicate then stores nothing, the spool row included.
 */
export type Admit = (message: Publication, identity: Identity | null, ops: readonly Op[], done: UnitDone) => void;
