import type { IPublishPacket, ISubscription } from 'mqtt-packet';
import type { Qos } from '../../model/message.js';
import { REASON } from './reason.js';
import { type CloudMessage, Session, type SessionCounters, type SessionLimits } from './session.js';
import { isTopicFilter, matches, Subscriptions } from './topics.js';

export interface CloudLimits extends SessionLimits {
  readonly sessionsMax: number;
  readonly subscriptionsPerSessionMax: number;
  readonly retainedMax: number;
  readonly retainedBytesMax: number;
}

export const CLOUD_LIMITS: CloudLimits = {
  /** Room for a consumer that is away for a while; a publisher that would overfill it is told so. */
  queueMax: 100_000,
  queueBytesMax: 256 * 1024 * 1024,
  sessionsMax: 1000,
  subscriptionsPerSessionMax: 1000,
  retainedMax: 10_000,
  retainedBytesMax: 64 * 1024 * 1024,
};

interface SubscriptionOptions {
  readonly qos: Qos;
  readonly noLocal: boolean;
  readonly retainAsPublished: boolean;
}

export interface Retained {
  readonly message: CloudMessage;
  readonly qos: Qos;
}

/**
 * What a cloud broker keeps while nobody is connected: sessions, subscriptions, retained messages. It is apart from the
 * broker, so that a test can stop one and start the next with the same state on the same port.
 */
export class CloudState {
  readonly counters: SessionCounters = { delivered: 0, redelivered: 0, dropped: 0 };
  readonly sessions = new Map<string, Session>();
  private readonly limits: CloudLimits;
  private readonly subscriptions = new Subscriptions<Session, SubscriptionOptions>();
  private readonly retained = new Map<string, Retained>();
  private retainedBytes = 0;

  constructor(limits: Partial<CloudLimits> = {}) {
    this.limits = { ...CLOUD_LIMITS, ...limits };
  }

  get queued(): number {
    return [...this.sessions.values()].reduce((sum, session) => sum + session.queued, 0);
  }

  /** The session of a client that connects; its older connection is sent away. Undefined when there are too many. */
  open(clientId: string, cleanStart: boolean): { session: Session; present: boolean } | undefined {
    this.expire();
    const old = this.sessions.get(clientId);
    old?.sender?.takenOver();
    if (old && !cleanStart && this.sessions.has(clientId)) return { session: old, present: true };
    if (old) this.drop(old);
    if (this.sessions.size >= this.limits.sessionsMax) return undefined;
    const session = new Session(clientId, this.limits, this.counters);
    this.sessions.set(clientId, session);
    return { session, present: false };
  }

  /** Ends the sessions whose expiry interval has passed. */
  expire(): void {
    const now = performance.now();
    for (const session of this.sessions.values()) if (session.endsMono <= now) this.drop(session);
  }

  drop(session: Session): void {
    this.subscriptions.removeAll(session);
    if (this.sessions.get(session.clientId) === session) this.sessions.delete(session.clientId);
  }

  /** The SUBACK code, and the retained messages that are due with it. */
  subscribe(session: Session, wanted: ISubscription): { code: number; retained: readonly Retained[] } {
    const refuse = (code: number) => ({ code, retained: [] });
    const { topic: filter, qos } = wanted;
    if (filter.startsWith('$share/')) return refuse(REASON.sharedSubscriptionsNotSupported);
    if (!isTopicFilter(filter)) return refuse(REASON.topicFilterInvalid);
    if (this.subscriptions.countOf(session) >= this.limits.subscriptionsPerSessionMax)
      return refuse(REASON.quotaExceeded);
    const options = { qos, noLocal: wanted.nl ?? false, retainAsPublished: wanted.rap ?? false };
    const fresh = this.subscriptions.add(session, filter, options);
    const handling = wanted.rh ?? 0;
    if (handling === 2 || (handling === 1 && !fresh)) return { code: qos, retained: [] };
    const levels = filter.split('/');
    const retained = [...this.retained.values()]
      .filter(({ message }) => matches(levels, message.topic.split('/')))
      .map((entry) => ({ message: entry.message, qos: Math.min(entry.qos, qos) as Qos }));
    return { code: qos, retained };
  }

  /** The UNSUBACK code. */
  unsubscribe(session: Session, filter: string): number {
    return this.subscriptions.remove(session, filter) ? REASON.success : REASON.noSubscriptionExisted;
  }

  /**
   * Queues a publish for everybody who wants it and gives its reason code. A queue without room refuses it for all: what
   * has been acknowledged is never dropped here.
   */
  route(packet: IPublishPacket, message: CloudMessage, from: Session): number {
    const targets = this.targets(packet, from);
    for (const [session, { qos }] of targets) if (qos > 0 && !session.hasRoom(message)) return REASON.quotaExceeded;
    if (packet.retain && !this.retain(message, packet.qos)) return REASON.quotaExceeded;
    for (const [session, { qos, retain }] of targets) session.enqueue({ message, qos, retain });
    return targets.size > 0 ? REASON.success : REASON.noMatchingSubscribers;
  }

  /** One delivery for each session, with the highest QoS of its overlapping subscriptions [MQTT-3.3.4-2]. */
  private targets(packet: IPublishPacket, from: Session): Map<Session, { qos: Qos; retain: boolean }> {
    const targets = new Map<Session, { qos: Qos; retain: boolean }>();
    for (const { owner, options } of this.subscriptions.match(packet.topic)) {
      if (options.noLocal && owner === from) continue;
      const other = targets.get(owner);
      const qos = Math.max(Math.min(packet.qos, options.qos), other?.qos ?? 0) as Qos;
      targets.set(owner, { qos, retain: (packet.retain && options.retainAsPublished) || (other?.retain ?? false) });
    }
    return targets;
  }

  /** False when there is no room. An empty payload takes the old one away [MQTT-3.3.1-6]. */
  private retain(message: CloudMessage, qos: Qos): boolean {
    const old = this.retained.get(message.topic)?.message.payload.length;
    const bytes = this.retainedBytes - (old ?? 0) + message.payload.length;
    const full = old === undefined && this.retained.size >= this.limits.retainedMax;
    if (message.payload.length > 0 && (full || bytes > this.limits.retainedBytesMax)) return false;
    this.retainedBytes = bytes;
    if (message.payload.length === 0) this.retained.delete(message.topic);
    else this.retained.set(message.topic, { message, qos });
    return true;
  }
}
