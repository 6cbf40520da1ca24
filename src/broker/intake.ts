/**
 * The way of a message through the broker: matched and given its rows when it comes, handed to `admit`, and once it is
 * durable acknowledged and delivered. Nothing is delivered that is not committed, and nothing in a unit depends on what
 * happens between submission and commit.
 */
import type { HoldfastError } from '../lib/errors.js';
import type { Qos } from '../model/message.js';
import type { Identity } from '../model/row.js';
import type { Op } from '../store/tables.js';
import type { Publication } from './admit.js';
import type { Manner, Outbox } from './outbox.js';
import { owned } from './owned.js';
import { hasPlaceFor, trimQueue } from './queue-cap.js';
import { sizeOf } from './retained.js';
import type { Target } from './router.js';
import type { Session } from './session.js';
import type { Shared } from './shared.js';

export interface Inbound extends Publication {
  /** Wall time in ms; 0: does not expire. */
  readonly deadline: number;
  /** The publisher's; null as well for an anonymous one. */
  readonly user: string | null;
}

/** `duplicate`: the guard knew the message, and nothing was stored. */
export type Stored = (error: HoldfastError | null, duplicate: boolean) => void;

interface Delivery extends Manner {
  readonly session: Session;
  /** The connection whose window has the packet id. */
  readonly outbox: Outbox | null;
  readonly packetId: number;
  /** Index of its row among the unit's operations, or -1. */
  readonly opIndex: number;
}

export class Intake {
  private readonly shared: Shared;
  private readonly waiting = new Set<() => void>();
  /** Payload bytes admitted and not yet durable. */
  pendingBytes = 0;
  pendingMessages = 0;
  private onIdle: (() => void) | undefined;

  constructor(shared: Shared) {
    this.shared = shared;
  }

  /** `lead` goes before the message's own operations: the guard of QoS 2, or the deletion of a will. */
  publish(message: Inbound, identity: Identity | null, lead: Op | null, stored: Stored): void {
    const { router, retained, statements, counters, clock } = this.shared;
    const ops: Op[] = lead ? [lead] : [];
    const keep = message.retain && this.makesRetained(message);
    const storedAt = keep ? clock.now() : 0;
    if (keep) {
      const { topic, payload, props, qos, deadline, sender, user } = message;
      ops.push(
        payload.length > 0
          ? statements.retainedPut(topic, payload, props, qos, deadline, sender, user, storedAt)
          : statements.retainedDelete(topic),
      );
    }
    const targets = router.match(message.topic, message.sender);
    const deliveries: Delivery[] = [];
    for (const target of targets) {
      const delivery = this.plan(message, target, ops);
      if (delivery) deliveries.push(delivery);
    }
    const { version } = router;
    const bytes = message.payload.length;
    this.pendingBytes += bytes;
    this.pendingMessages++;
    this.shared.admit(message, identity, ops, (error, results, at) => {
      this.pendingBytes -= bytes;
      this.pendingMessages--;
      if (keep && bytes > 0) retained.release(message.topic, sizeOf(message));
      const duplicate = !error && lead?.guard === true && results[at] === 0;
      if (error || duplicate) {
        for (const delivery of deliveries) cancel(delivery, bytes);
        stored(error, duplicate);
      } else {
        stored(null, false);
        if (keep) {
          const { topic, payload, props, qos, deadline, sender, user } = message;
          retained.set({ topic, payload: owned(payload), props: owned(props), qos, deadline, sender, user, storedAt });
        }
        for (const delivery of deliveries)
          this.deliver(message, delivery, delivery.opIndex < 0 ? 0 : (results[at + delivery.opIndex] as number));
        if (router.version !== version) this.catchUp(message, version, deliveries);
      }
      this.wakeWaiting();
      if (this.pendingMessages === 0) this.onIdle?.();
    });
    counters.received++;
    counters.receivedPayloadBytes += bytes;
  }

  /** Rows for the retained messages of a new subscription; whatever is submitted after is durable after them. */
  enqueueRetained(session: Session, items: readonly { message: Inbound; manner: Manner }[]): void {
    for (const { message, manner } of items) this.enqueue(session, message, manner);
  }

  /** `resume` is called once less waits to be committed. */
  wait(resume: () => void): void {
    this.waiting.add(resume);
  }

  get isFull(): boolean {
    return this.pendingBytes > this.shared.limits.pendingBytesTotalMax;
  }

  /** Resolves when nothing waits to be committed. */
  async idle(): Promise<void> {
    if (this.pendingMessages > 0) {
      await new Promise<void>((resolve) => {
        this.onIdle = resolve;
      });
    }
  }

  private makesRetained({ topic, payload, props }: Inbound): boolean {
    const { retained, counters } = this.shared;
    if (payload.length === 0 || retained.hold(topic, sizeOf({ topic, payload, props }))) return true;
    counters.dropped['retained-full']++;
    return false;
  }

  private plan(message: Inbound, { session, qos: granted, ids, retainAsPublished }: Target<Session>, ops: Op[]) {
    const qos = Math.min(message.qos, granted) as Qos;
    const retain = message.retain && retainAsPublished;
    const { outbox } = session;
    // Looked at again when it leaves; here it saves the row, and the place of a message that may be read.
    if (!this.shared.access.mayReceive(session.principal, message.topic)) return null;
    if (qos === 0 || !session.persistent) return { session, outbox, qos, retain, ids, packetId: 0, opIndex: -1 };
    if (!hasPlaceFor(message.payload.length, session, this.shared)) return null;
    const packetId = outbox?.reserve(qos, message.payload.length) ?? 0;
    session.rows++;
    session.rowBytes += message.payload.length;
    ops.push(this.row(session, message, { qos, retain, ids }, packetId));
    return { session, outbox, qos, retain, ids, packetId, opIndex: ops.length - 1 };
  }

  private row(session: Session, message: Inbound, { qos, retain, ids }: Manner, packetId: number): Op {
    const { topic, payload, props, deadline } = message;
    const idList = ids ? JSON.stringify(ids) : null;
    return this.shared.statements.outgoingPut(
      session.key,
      packetId || null,
      topic,
      payload,
      props,
      qos,
      retain ? 1 : 0,
      deadline,
      idList,
    );
  }

  private deliver(message: Inbound, delivery: Delivery, seq: number): void {
    const { session, outbox, packetId } = delivery;
    if (delivery.opIndex < 0) session.outbox?.send(message, delivery);
    else if (session.ended) this.shared.store.ride(this.shared.statements.outgoingDelete(seq));
    else if (packetId > 0 && outbox === session.outbox) outbox?.sendReserved(message, delivery, packetId, seq);
    else this.arrived(session);
  }

  /** A row that waits in the table. */
  private arrived(session: Session): void {
    trimQueue(session, this.shared);
    session.outbox?.wake();
  }

  /**
   * Subscriptions that came between this message's submission and its commit were not matched. They get it too: whoever
   * has its SUBACK when a message is acknowledged receives that message. A retained one also goes to sessions that have
   * had it for an older subscription, because the new one took its snapshot of the retained messages without it.
   */
  private catchUp(message: Inbound, version: number, deliveries: readonly Delivery[]): void {
    for (const target of this.shared.router.matchSince(version, message.topic, message.sender)) {
      if (!message.retain && deliveries.some(({ session }) => session === target.session)) continue;
      const qos = Math.min(message.qos, target.qos) as Qos;
      const manner: Manner = { qos, retain: message.retain && target.retainAsPublished, ids: target.ids };
      if (!this.shared.access.mayReceive(target.session.principal, message.topic)) continue;
      if (qos > 0 && target.session.persistent) this.enqueue(target.session, message, manner);
      else target.session.outbox?.send(message, manner);
    }
  }

  private enqueue(session: Session, message: Inbound, manner: Manner): void {
    if (!hasPlaceFor(message.payload.length, session, this.shared)) return;
    session.rows++;
    session.rowBytes += message.payload.length;
    this.shared.store.submit([this.row(session, message, manner, 0)], (error, results, at) => {
      if (error) {
        session.rows--;
        session.rowBytes -= message.payload.length;
      } else if (session.ended) this.shared.store.ride(this.shared.statements.outgoingDelete(results[at] as number));
      else this.arrived(session);
    });
  }

  private wakeWaiting(): void {
    if (this.waiting.size === 0 || this.pendingBytes > this.shared.limits.pendingBytesTotalMax / 2) return;
    const resumes = [...this.waiting];
    this.waiting.clear();
    for (const resume of resumes) resume();
  }
}

/** The row was not written. */
function cancel({ session, outbox, packetId, opIndex }: Delivery, bytes: number): void {
  if (opIndex < 0) return;
  session.rows--;
  session.rowBytes -= bytes;
  if (packetId > 0) outbox?.cancel(packetId, bytes);
}
