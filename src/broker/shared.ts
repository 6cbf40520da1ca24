/** What the parts of one broker share. */
import type { Clock } from '../lib/clock.js';
import type { Log, RateLimit } from '../lib/log.js';
import type { Store } from '../store/store.js';
import type { Access } from './access.js';
import type { Admit } from './admit.js';
import type { Counters } from './counters.js';
import type { BrokerLimits } from './limits.js';
import type { RetainedStore } from './retained.js';
import type { Router } from './router.js';
import type { Session } from './session.js';
import type { Statements } from './statements.js';

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
