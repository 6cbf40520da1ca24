/** The sessions of all clients: who is connected, who comes back, and when a session has ended. */
import type { Qos } from '../model/message.js';
import type { Op } from '../store/tables.js';
import type { Connection } from './connection.js';
import { ProtocolError, REASON } from './reason.js';
import { Session, type Will } from './session.js';
import type { Shared } from './shared.js';
import type { SessionRow, SubscriptionRow, WillRow } from './tables.js';
import { TakeoverStorms } from './takeover-storms.js';
import type { Wills } from './wills.js';

export interface ConnectPlan {
  readonly clientId: string;
  readonly user: string | null;
  readonly cleanStart: boolean;
  readonly expiryS: number;
  readonly will: Will | null;
}

export class Sessions {
  private readonly shared: Shared;
  private readonly wills: Wills;
  private readonly byId = new Map<string, Session>();
  /** Takeovers of one client id happen one after the other. */
  private readonly locks = new Map<string, Promise<unknown>>();
  private readonly storms: TakeoverStorms;
  private nextKey = 1;

  constructor(shared: Shared, wills: Wills) {
    this.shared = shared;
    this.wills = wills;
    this.storms = new TakeoverStorms(shared);
  }

  get count(): number {
    return this.byId.size;
  }

  values(): IterableIterator<Session> {
    return this.byId.values();
  }

  /** Reads what an earlier run has left. Sessions that were connected then are treated as if they had just gone. */
  async load(): Promise<void> {
    const { store, clock, router } = this.shared;
    const byKey = new Map<number, Session>();
    for (const row of await store.query<SessionRow[]>('broker.sessions')) {
      const [key, id, user, expiryS, endsAt, outgoing, outgoingBytes, incoming] = row;
      const session = new Session(key, id, user);
      session.persistent = true;
      session.expiryS = expiryS ?? Number.POSITIVE_INFINITY;
      const expiryMs = session.expiryS * 1000;
      session.endsAt = clock.mono() + (endsAt === null ? expiryMs : Math.min(expiryMs, endsAt - clock.now()));
      session.rows = outgoing;
      session.rowBytes = outgoingBytes;
      session.halfOpen = incoming;
      this.byId.set(id, session);
      byKey.set(key, session);
      this.nextKey = Math.max(this.nextKey, key + 1);
    }
    for (const row of await store.query<SubscriptionRow[]>('broker.subscriptions')) {
      const [key, filter, qos, noLocal, retainAsPublished, retainHandling, id] = row;
      const session = byKey.get(key);
      const flags = { noLocal: noLocal === 1, retainAsPublished: retainAsPublished === 1 };
      if (session) router.add(session, filter, { qos: qos as Qos, ...flags, retainHandling, id });
    }
    for (const row of await store.query<WillRow[]>('broker.wills')) {
      let session = this.byId.get(row[0]);
      if (!session) {
        // The client was clean, and its session is over: it is only here for its will, until the sweep below.
        session = new Session(this.nextKey++, row[0], row[9]);
        session.endsAt = 0;
        this.byId.set(session.id, session);
      }
      this.wills.restore(session, row);
    }
    this.sweep();
  }

  /**
   * Gives `connection` its session, once the client is known. Throws ProtocolError. When it returns, the session is durable
   * and an earlier connection of the client is closed.
   */
  async attach(connection: Connection, plan: ConnectPlan): Promise<{ session: Session; present: boolean }> {
    const { clientId } = plan;
    const before = this.locks.get(clientId) ?? Promise.resolve();
    const mine = before.then(() => this.take(connection, plan));
    const settled = mine.catch(() => {});
    this.locks.set(clientId, settled);
    try {
      return await mine;
    } finally {
      if (this.locks.get(clientId) === settled) this.locks.delete(clientId);
    }
  }

  private async take(connection: Connection, plan: ConnectPlan): Promise<{ session: Session; present: boolean }> {
    const { statements, store, limits } = this.shared;
    // It may have died while it waited for its turn, and must not take the session from a living one.
    if (connection.isClosed) throw new ProtocolError(REASON.sessionTakenOver, 'gone while connecting');
    let session = this.byId.get(plan.clientId);
    // Whoever knows a client id must not be able to read or wipe the queue of somebody else's session.
    if (session && session.user !== plan.user)
      throw new ProtocolError(REASON.badClientId, 'the client id belongs to another user');
    if (session?.connection) {
      await this.storms.wait(plan.clientId);
      if (connection.isClosed) throw new ProtocolError(REASON.sessionTakenOver, 'gone while connecting');
      session = this.byId.get(plan.clientId);
    }
    session?.connection?.disconnect(REASON.sessionTakenOver, 'another connection uses this client id');
    session = this.byId.get(plan.clientId);
    if (session && plan.cleanStart) this.end(session);
    session = this.byId.get(plan.clientId);
    const present = session?.persistent === true;
    if (!session) {
      if (this.byId.size >= limits.sessionsMax) throw new ProtocolError(REASON.quotaExceeded, 'too many sessions');
      session = new Session(this.nextKey++, plan.clientId, plan.user);
      this.byId.set(session.id, session);
    }
    const hadWill = session.will !== null;
    session.persistent ||= plan.expiryS > 0;
    session.expiryS = plan.expiryS;
    session.endsAt = Number.POSITIVE_INFINITY;
    session.willDueAt = Number.POSITIVE_INFINITY;
    session.will = plan.will;
    session.connection = connection;
    const outbox = connection.openOutbox(session);
    session.outbox = outbox;
    const ops: Op[] = [];
    if (session.persistent) ops.push(this.row(session, null));
    if (session.will) ops.push(this.wills.put(session, session.will, null));
    else if (hadWill) ops.push(statements.willDelete(session.id));
    try {
      if (ops.length > 0) await store.commit(ops);
      if (present) outbox.hold(await store.query<number[]>('broker.outgoingIds', session.key));
    } catch (error) {
      this.detach(connection, session, true);
      throw error;
    }
    if (session.connection !== connection) throw new ProtocolError(REASON.sessionTakenOver, 'gone while connecting');
    return { session, present };
  }

  /** The connection is gone. `normal`: the client has said so, and its will is not to be published. */
  detach(connection: Connection, session: Session, normal: boolean): void {
    if (session.connection !== connection) return;
    const { clock, store } = this.shared;
    session.connection = null;
    session.outbox?.close();
    session.outbox = null;
    if (normal) this.wills.discard(session);
    else this.wills.arm(session);
    if (!session.persistent || session.expiryS <= 0) {
      this.end(session);
      return;
    }
    const expiryMs = session.expiryS * 1000;
    session.endsAt = clock.mono() + expiryMs;
    store.ride(this.row(session, clock.now() + expiryMs));
  }

  /** Publishes wills that are due and ends sessions that have expired. */
  sweep(): void {
    const now = this.shared.clock.mono();
    this.storms.sweep(now);
    for (const session of [...this.byId.values()]) {
      if (session.willDueAt <= now) this.wills.fire(session);
      if (session.endsAt > now || session.connection) continue;
      if (session.persistent) this.shared.counters.sessionsExpired++;
      this.end(session);
    }
  }

  /** Throws away what has expired in the queues of clients that are away; the others skip it when they come to it. */
  expireQueued(): void {
    const { clock, store, statements, counters } = this.shared;
    for (const session of this.byId.values()) {
      if (session.connection || session.rows === 0) continue;
      const of = [session.key, clock.now()] as const;
      const unit = [statements.outgoingExpiring(...of), statements.outgoingExpire(...of)];
      store.submit(unit, (error, results, at) => {
        if (error) return;
        const [bytes, expired] = [results[at] as number, results[at + 1] as number];
        session.rowBytes -= bytes;
        session.rows -= expired;
        counters.dropped.expired += expired;
      });
    }
  }

  /** With its subscriptions and what is queued for it. A will that waits is published now [MQTT5 3.1.3.2.2]. */
  private end(session: Session): void {
    if (session.ended) return;
    session.ended = true;
    if (session.willDueAt < Number.POSITIVE_INFINITY) this.wills.fire(session);
    for (const filter of [...session.subscriptions.keys()]) this.shared.router.remove(session, filter);
    this.byId.delete(session.id);
    if (!session.persistent) return;
    this.shared.store.submit([this.shared.statements.sessionDelete(session.key)], (error) => {
      if (error) this.shared.log.error({ cause: error.message }, 'A session could not be removed');
    });
  }

  private row({ key, id, user, expiryS }: Session, endsAt: number | null): Op {
    const finite = (value: number | null): number | null => (Number.isFinite(value) ? value : null);
    // A session that never ends has no end to store, and so looks connected: the same thing at the next start.
    return this.shared.statements.sessionPut(key, id, user, finite(expiryS), finite(endsAt));
  }
}
