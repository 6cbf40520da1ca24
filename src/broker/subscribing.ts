/**
 * SUBSCRIBE and UNSUBSCRIBE of one connection. Aedes decides about each filter; then the change is made durable, and in the
 * callback of that commit, in one go, the subscription begins to match and the retained messages are looked up. What was
 * committed before comes as retained, what is committed after comes live, and nothing comes twice or is lost between.
 */
import type { ISubscribePacket, IUnsubscribePacket, Packet } from 'mqtt-packet';
import type { Qos } from '../model/message.js';
import type { Op } from '../store/tables.js';
import type { Inbound, Intake } from './intake.js';
import type { Manner } from './outbox.js';
import { withUserProperty } from './properties.js';
import { ProtocolError, REASON, SUBSCRIBE_FAILURE_V4 } from './reason.js';
import type { Retained } from './retained.js';
import type { SubscriptionOptions } from './router.js';
import type { Session } from './session.js';
import type { Shared } from './shared.js';
import { isValidFilter, sharedParts } from './topics.js';

export interface SubscribingOwner {
  readonly version: number;
  readonly isClosed: boolean;
  /** To Aedes; its answer comes to `onVerdict`. */
  pass(packet: Packet): void;
  /** The answer to the client; reading goes on. */
  answer(packet: Packet): void;
  onNotStored(error: Error): void;
}

interface Pending {
  readonly packet: ISubscribePacket | IUnsubscribePacket;
  /** Filters that Aedes was asked about, in that order. */
  readonly asked: readonly string[];
  readonly codes: Map<string, number>;
  readonly options: Map<string, SubscriptionOptions>;
}

/** The user property that tells since when a retained value stands, in ms since 1970. */
const STORED_AT = 'holdfast-stored-at';

export class Subscribing {
  private readonly shared: Shared;
  private readonly intake: Intake;
  private readonly owner: SubscribingOwner;
  private readonly session: Session;
  /** One at a time: the connection reads on only after the answer. */
  private pending: Pending | undefined;

  constructor(shared: Shared, intake: Intake, owner: SubscribingOwner, session: Session) {
    this.shared = shared;
    this.intake = intake;
    this.owner = owner;
    this.session = session;
  }

  /** Throws ProtocolError. */
  subscribe(packet: ISubscribePacket): void {
    const id: unknown = packet.properties?.subscriptionIdentifier;
    if (packet.subscriptions.length === 0) throw new ProtocolError(REASON.protocolError, 'no filters');
    if (id !== undefined && (typeof id !== 'number' || id < 1))
      throw new ProtocolError(REASON.protocolError, 'bad subscription identifier');
    const codes = new Map<string, number>();
    const options = new Map<string, SubscriptionOptions>();
    let room = this.shared.limits.subscriptionsPerSessionMax - this.session.subscriptions.size;
    for (const { topic: filter, qos, nl = false, rap = false, rh = 0 } of packet.subscriptions) {
      if (nl && filter.startsWith('$share/'))
        throw new ProtocolError(REASON.protocolError, 'no local on a shared subscription');
      const isNew = !this.session.subscriptions.has(filter) && !options.has(filter);
      if (!isValidFilter(filter, this.shared.limits)) codes.set(filter, this.failure(REASON.badFilter));
      else if (isNew && room-- <= 0) codes.set(filter, this.failure(REASON.quotaExceeded));
      else options.set(filter, { qos, noLocal: nl, retainAsPublished: rap, retainHandling: rh, id: id ?? 0 });
    }
    this.pending = { packet, asked: [...options.keys()], codes, options };
    if (options.size === 0) {
      this.onVerdict({ cmd: 'suback', granted: [] });
      return;
    }
    const subscriptions = [...options].map(([topic, { qos }]) => ({ topic, qos }));
    this.owner.pass({ cmd: 'subscribe', messageId: packet.messageId as number, subscriptions });
  }

  /** Throws ProtocolError. */
  unsubscribe(packet: IUnsubscribePacket): void {
    if (packet.unsubscriptions.length === 0) throw new ProtocolError(REASON.protocolError, 'no filters');
    const codes = new Map<string, number>();
    const asked: string[] = [];
    for (const filter of new Set(packet.unsubscriptions)) {
      if (!isValidFilter(filter, this.shared.limits)) codes.set(filter, REASON.badFilter);
      else {
        codes.set(filter, this.session.subscriptions.has(filter) ? REASON.success : REASON.noSubscriptionExisted);
        asked.push(filter);
      }
    }
    this.pending = { packet, asked, codes, options: new Map() };
    if (asked.length === 0) {
      this.onVerdict({ cmd: 'unsuback', granted: [] });
      return;
    }
    this.owner.pass({ cmd: 'unsubscribe', messageId: packet.messageId as number, unsubscriptions: asked });
  }

  onVerdict(verdict: Packet): void {
    const { pending, session } = this;
    if (!pending) return;
    this.pending = undefined;
    const ops: Op[] = [];
    if (verdict.cmd === 'suback') {
      const granted = verdict.granted as number[];
      for (const [i, filter] of pending.asked.entries()) {
        const code = granted[i] ?? SUBSCRIBE_FAILURE_V4;
        pending.codes.set(filter, code <= 2 ? code : this.failure(REASON.notAuthorized));
        if (code > 2) pending.options.delete(filter);
      }
      for (const [filter, { qos, noLocal, retainAsPublished, retainHandling, id }] of pending.options) {
        const flags = [noLocal ? 1 : 0, retainAsPublished ? 1 : 0] as const;
        ops.push(this.shared.statements.subscriptionPut(session.key, filter, qos, ...flags, retainHandling, id));
      }
    } else for (const filter of pending.asked) ops.push(this.shared.statements.subscriptionDelete(session.key, filter));
    const apply = verdict.cmd === 'suback' ? () => this.applySubscribe(pending) : () => this.applyUnsubscribe(pending);
    if (!session.persistent || ops.length === 0) {
      apply();
      return;
    }
    this.shared.store.submit(ops, (error) => {
      if (error) this.owner.onNotStored(error);
      else if (!session.ended) apply();
    });
  }

  private applySubscribe({ packet, codes, options }: Pending): void {
    const { session, shared, owner } = this;
    const wanted: [filter: string, options: SubscriptionOptions][] = [];
    for (const [filter, option] of options) {
      const isNew = shared.router.add(session, filter, option);
      const { retainHandling } = option;
      if (!sharedParts(filter) && (retainHandling === 0 || (retainHandling === 1 && isNew)))
        wanted.push([filter, option]);
    }
    const items = this.retainedFor(wanted);
    const granted = (packet as ISubscribePacket).subscriptions.map(({ topic }) => codes.get(topic) as number);
    const answer = (): void => {
      if (owner.isClosed) return;
      owner.answer({ cmd: 'suback', messageId: packet.messageId as number, granted });
      const direct = session.persistent ? items.filter(({ manner }) => manner.qos === 0) : items;
      session.outbox?.sendRetained(direct);
    };
    const rows = session.persistent ? items.filter(({ manner }) => manner.qos > 0) : [];
    if (rows.length === 0) {
      answer();
      return;
    }
    // Rows, so that a connection that breaks now does not take the values with it; submitted here, they come before
    // whatever is published from now on.
    this.intake.enqueueRetained(session, rows);
    shared.store.submit([], (error) => {
      if (error) owner.onNotStored(error);
      else answer();
    });
  }

  private applyUnsubscribe({ packet, codes, asked }: Pending): void {
    for (const filter of asked) this.shared.router.remove(this.session, filter);
    const granted = (packet as IUnsubscribePacket).unsubscriptions.map((filter) => codes.get(filter) as number);
    this.owner.answer({ cmd: 'unsuback', messageId: packet.messageId as number, granted });
  }

  /** One copy of each retained message, with the highest QoS and all identifiers of the filters that match it. */
  private retainedFor(wanted: readonly [string, SubscriptionOptions][]): { message: Inbound; manner: Manner }[] {
    const found = new Map<string, { message: Inbound; manner: { qos: Qos; retain: true; ids: number[] | null } }>();
    const now = this.shared.clock.now();
    for (const [filter, { qos, id }] of wanted) {
      for (const message of this.shared.retained.match(filter, now)) {
        if (!this.mayHave(message)) continue;
        const granted = Math.min(message.qos, qos) as Qos;
        const known = found.get(message.topic)?.manner;
        if (!known) {
          const manner = { qos: granted, retain: true as const, ids: id > 0 ? [id] : null };
          found.set(message.topic, { message: this.asRetained(message), manner });
          continue;
        }
        known.qos = Math.max(known.qos, granted) as Qos;
        if (id > 0 && !known.ids?.includes(id)) known.ids = [...(known.ids ?? []), id];
      }
    }
    return [...found.values()];
  }

  /** With the time since when it stands, where that is configured: an HMI must not show what is old as if it were new. */
  private asRetained(message: Retained): Inbound {
    const { storedAt, props } = message;
    const { retainedTime } = this.shared.limits;
    const tells = retainedTime && storedAt > 0 && this.owner.version === 5;
    const shown = tells ? withUserProperty(props, STORED_AT, String(storedAt)) : props;
    return { ...message, props: shown, retain: true, sender: null };
  }

  /** The right of who published it may have ended since, and his value with it [CVE-2018-12546]. */
  private mayHave({ topic, sender, user }: Retained): boolean {
    const { access } = this.shared;
    if (!access.mayReceive(this.session.principal, topic)) return false;
    return sender === null || access.mayPublish({ user, clientId: sender }, topic);
  }

  private failure(reason: number): number {
    return this.owner.version === 5 ? reason : SUBSCRIBE_FAILURE_V4;
  }
}
