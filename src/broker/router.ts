/**
 * Which sessions a message goes to: one trie of the filters of all sessions, connected or not. A session gets one copy,
 * with the highest QoS and the identifiers of all its matching subscriptions [MQTT5 3.3.4]; of a shared group one member
 * gets it [4.8.2].
 */
import type { Qos } from '../model/message.js';
import { sharedParts } from './topics.js';

export interface SubscriptionOptions {
  readonly qos: Qos;
  readonly noLocal: boolean;
  readonly retainAsPublished: boolean;
  readonly retainHandling: number;
  /** 0: none. */
  readonly id: number;
}

/** What the router needs to know of a session. */
export interface Receiver {
  readonly id: string;
  readonly subscriptions: Map<string, Subscription<this>>;
  /** Can take a message of a shared group: 2 at once, 1 later, 0 not at all. */
  readiness(): 0 | 1 | 2;
}

export interface Subscription<R> {
  readonly session: R;
  readonly filter: string;
  options: SubscriptionOptions;
  /** `Router.version` at which it began to match. */
  readonly since: number;
}

export interface Target<R> {
  readonly session: R;
  qos: Qos;
  retainAsPublished: boolean;
  ids: number[] | null;
}

interface Group<R> {
  readonly members: Subscription<R>[];
  next: number;
}

type Entry<R> = Subscription<R> | Group<R>;

interface Node<R> {
  readonly children: Map<string, Node<R>>;
  /** Filters that end here. */
  readonly exact: Entry<R>[];
  /** Filters that end in `/#` below here. */
  readonly below: Entry<R>[];
}

/** Matches kept by topic; a plant publishes the same topics over and over. */
const CACHE_TOPICS_MAX = 20_000;

interface Cached<R> {
  /** Without no-local and shared groups the answer is the same for every sender, and this is it. */
  readonly fixed: readonly Target<R>[] | null;
  readonly entries: readonly Entry<R>[];
}

export class Router<R extends Receiver> {
  private readonly mayReceive: (session: R, topic: string) => boolean;
  private readonly root: Node<R> = newNode();
  private readonly groups = new Map<string, Group<R>>();
  private readonly cache = new Map<string, Cached<R>>();
  /** Rises with every new subscription. */
  version = 0;
  count = 0;

  /** `mayReceive`: whether a member of a shared group can be given the message in the group's place. */
  constructor(mayReceive: (session: R, topic: string) => boolean = () => true) {
    this.mayReceive = mayReceive;
  }

  /** Subscriptions of shared groups. */
  get sharedCount(): number {
    let count = 0;
    for (const { members } of this.groups.values()) count += members.length;
    return count;
  }

  /** Adds or changes a subscription; true when the session did not have it. It matches from now on. */
  add(session: R, filter: string, options: SubscriptionOptions): boolean {
    this.cache.clear();
    const old = session.subscriptions.get(filter);
    if (old) {
      old.options = options;
      return false;
    }
    const subscription: Subscription<R> = { session, filter, options, since: ++this.version };
    session.subscriptions.set(filter, subscription as never);
    this.count++;
    const shared = sharedParts(filter);
    if (!shared) {
      this.place(filter).push(subscription);
      return true;
    }
    let group = this.groups.get(filter);
    if (!group) {
      group = { members: [], next: 0 };
      this.groups.set(filter, group);
      this.place(shared.inner).push(group);
    }
    group.members.push(subscription);
    return true;
  }

  /** True when the session had it. */
  remove(session: R, filter: string): boolean {
    const subscription = session.subscriptions.get(filter) as Subscription<R> | undefined;
    if (!subscription) return false;
    this.cache.clear();
    session.subscriptions.delete(filter);
    this.count--;
    const shared = sharedParts(filter);
    if (!shared) {
      this.unplace(filter, subscription);
      return true;
    }
    const group = this.groups.get(filter) as Group<R>;
    group.members.splice(group.members.indexOf(subscription), 1);
    if (group.members.length === 0) {
      this.groups.delete(filter);
      this.unplace(shared.inner, group);
    }
    return true;
  }

  /** Who gets a message of `sender` in `topic` now. The answer belongs to the router: read it, do not keep or change it. */
  match(topic: string, sender: string | null): readonly Target<R>[] {
    let cached = this.cache.get(topic);
    if (!cached) {
      const entries = this.find(topic);
      const varies = entries.some((entry) => 'members' in entry || entry.options.noLocal);
      cached = { entries, fixed: varies ? null : merge(entries as Subscription<R>[], null) };
      if (this.cache.size >= CACHE_TOPICS_MAX) this.cache.clear();
      this.cache.set(topic, cached);
    }
    return (
      cached.fixed ??
      merge(
        cached.entries.map((entry) => this.chosen(entry, topic)),
        sender,
      )
    );
  }

  /** The same for subscriptions that began to match after `version`; shared groups are left out. */
  matchSince(version: number, topic: string, sender: string | null): readonly Target<R>[] {
    const fresh = this.find(topic).filter((entry) => !('members' in entry) && entry.since > version);
    return merge(fresh as Subscription<R>[], sender);
  }

  /** The member whose turn it is: round robin over those that can take it at once, else later. */
  private chosen(entry: Entry<R>, topic: string): Subscription<R> | null {
    if (!('members' in entry)) return entry;
    const { members } = entry;
    let best: Subscription<R> | null = null;
    let bestReadiness = 0;
    let bestAt = entry.next;
    for (let i = 0; i < members.length && bestReadiness < 2; i++) {
      const at = (entry.next + i) % members.length;
      const member = members[at] as Subscription<R>;
      const readiness = this.mayReceive(member.session, topic) ? member.session.readiness() : 0;
      if (readiness > bestReadiness) {
        best = member;
        bestReadiness = readiness;
        bestAt = at;
      }
    }
    entry.next = (bestAt + 1) % members.length;
    return best;
  }

  private place(filter: string): Entry<R>[] {
    const levels = filter.split('/');
    const below = levels.at(-1) === '#';
    if (below) levels.pop();
    let node = this.root;
    for (const level of levels) {
      let child = node.children.get(level);
      if (!child) {
        child = newNode();
        node.children.set(level, child);
      }
      node = child;
    }
    return below ? node.below : node.exact;
  }

  private unplace(filter: string, entry: Entry<R>): void {
    const levels = filter.split('/');
    const below = levels.at(-1) === '#';
    if (below) levels.pop();
    const path: Node<R>[] = [this.root];
    for (const level of levels) path.push((path.at(-1) as Node<R>).children.get(level) as Node<R>);
    const node = path.at(-1) as Node<R>;
    const entries = below ? node.below : node.exact;
    entries.splice(entries.indexOf(entry), 1);
    for (let depth = levels.length; depth > 0; depth--) {
      const { children, exact, below: rest } = path[depth] as Node<R>;
      if (children.size + exact.length + rest.length > 0) break;
      (path[depth - 1] as Node<R>).children.delete(levels[depth - 1] as string);
    }
  }

  private find(topic: string): Entry<R>[] {
    const found: Entry<R>[] = [];
    const levels = topic.split('/');
    const walk = (node: Node<R>, depth: number): void => {
      // A wildcard at the first level does not match topics of the server [MQTT-4.7.2-1].
      const wild = depth > 0 || topic.charCodeAt(0) !== 36;
      if (wild) found.push(...node.below);
      if (depth === levels.length) {
        found.push(...node.exact);
        return;
      }
      const named = node.children.get(levels[depth] as string);
      if (named) walk(named, depth + 1);
      const any = wild && node.children.get('+');
      if (any) walk(any, depth + 1);
    };
    walk(this.root, 0);
    return found;
  }
}

function newNode<R>(): Node<R> {
  return { children: new Map(), exact: [], below: [] };
}

function merge<R extends Receiver>(
  subscriptions: readonly (Subscription<R> | null)[],
  sender: string | null,
): readonly Target<R>[] {
  const targets = new Map<R, Target<R>>();
  for (const subscription of subscriptions) {
    if (!subscription) continue;
    const { session, options } = subscription;
    if (options.noLocal && session.id === sender) continue;
    const target = targets.get(session);
    if (!target) {
      const ids = options.id > 0 ? [options.id] : null;
      targets.set(session, { session, qos: options.qos, retainAsPublished: options.retainAsPublished, ids });
      continue;
    }
    if (options.qos > target.qos) target.qos = options.qos;
    target.retainAsPublished ||= options.retainAsPublished;
    if (options.id > 0) {
      target.ids ??= [];
      if (!target.ids.includes(options.id)) target.ids.push(options.id);
    }
  }
  return [...targets.values()];
}
