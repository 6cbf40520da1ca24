/** What an ACL has answered before: a plant's clients use the same topics over and over, and each message asks. */
import type { Principal } from './access.js';
import type { Acl, Action } from './acl-file.js';

/** Answers that are kept, of all clients together: about 30 MiB. Then it begins anew. */
const ANSWERS_MAX = 200_000;
/** Above the bit of an action, whether it has been asked about. */
const ASKED_SHIFT = 2;

export class Decisions {
  private readonly acl: Acl;
  /** By client; the answers of one that has gone go with it. */
  private answers = new WeakMap<Principal, Map<string, number>>();
  private count = 0;

  constructor(acl: Acl) {
    this.acl = acl;
  }

  allows(principal: Principal, action: Action, topic: string): boolean {
    const known = this.answers.get(principal)?.get(topic) ?? 0;
    if ((known & (action << ASKED_SHIFT)) !== 0) return (known & action) !== 0;
    const allowed = this.acl.allows(principal, action, topic);
    this.keep(principal, topic, known | (action << ASKED_SHIFT) | (allowed ? action : 0));
    return allowed;
  }

  /** Asked once for each filter, so it is not kept. */
  allowsFilter(principal: Principal, filter: string): boolean {
    return this.acl.decideFilter(principal, filter).allowed;
  }

  private keep(principal: Principal, topic: string, answer: number): void {
    if (this.count++ >= ANSWERS_MAX) {
      this.answers = new WeakMap();
      this.count = 0;
    }
    let topics = this.answers.get(principal);
    if (!topics) {
      topics = new Map();
      this.answers.set(principal, topics);
    }
    topics.set(topic, answer);
  }
}
