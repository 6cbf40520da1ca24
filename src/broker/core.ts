/** What the parts of one broker share. */
import type { Clock } from '../lib/clock.js';
import type { Log, RateLimit } from '../lib/log.js';
import type { Message } from '../model/message.js';
import type { Identity } from '../model/row.js';
import type { Store, UnitDone } from '../store/store.js';
import type { Op } from '../store/tables.js';
import type { Access } from './access.js';
import type { Counters } from './counters.js';
import type { BrokerLimits } from './limits.js';
import type { RetainedStore } from './retained.js';
import type { Router } from './router.js';
import type { Session } from './session.js';
import type { Statements } from './statements.js';

export interface Publication extends Message {
  /** Client id of the publisher, or null for one in this process. */
  readonly sender: string | null;
}

/**
 * The durability seam. The broker calls it with the operations that belong to a message; the one who joins broker and
 * spool adds the spool row after them where the topic is bridged, and submits all as one unit. `done` comes after the
 * COMMIT; it may be held back for some messages while later ones pass, and the broker keeps the order of
 * acknowledgements by itself. `results[at + i]` is what operation i returned, NaN where a guard has skipped it. The first
 * operation of a QoS 2 message may be a guard: a duplicate then stores nothing, the spool row included.
 */
export type Admit = (message: Publication, identity: Identity | null, ops: readonly Op[], done: UnitDone) => void;

export interface Shared {
  readonly store: Store;
  readonly statements: Statements;
  readonly admit: Admit;
  readonly access: Access;
  readonly router: Router<Session>;
  readonly retained: RetainedStore;
  readonly limits: BrokerLimits;
  readonly counters: Counters;
  readonly clock: Clock;
  readonly log: Log;
  /** For complaints that every client could cause again and again. */
  readonly complaints: RateLimit;
}
