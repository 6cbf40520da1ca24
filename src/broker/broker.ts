/**
 * The plant's own MQTT broker. It acknowledges a message after the commit that holds it, and delivers it after that; sessions,
 * retained messages, queues and wills are in the same file and survive the process. Read `intake.ts` for the way of a
 * message, `connection.ts` for a client, `outbox.ts` for what goes out.
 */
import type { Duplex } from 'node:stream';
import { type Clock, sleep } from '../lib/clock.js';
import { Closer } from '../lib/closer.js';
import { type Log, RateLimit } from '../lib/log.js';
import type { Message, Qos } from '../model/message.js';
import type { Identity } from '../model/row.js';
import type { Store } from '../store/store.js';
import { type Access, anonymousAccess, type Entrance } from './access.js';
import { AddressGuard } from './address-guard.js';
import type { Admit } from './admit.js';
import { AedesCore } from './aedes-core.js';
import { Connection } from './connection.js';
import { Counters, type DropReason } from './counters.js';
import { Intake } from './intake.js';
import { type BrokerLimits, DEFAULT_LIMITS } from './limits.js';
import { allOrProblems } from './line-problem.js';
import { type Listener, type ListenerOptions, listen } from './listeners.js';
import { REASON } from './reason.js';
import { RetainedStore } from './retained.js';
import { Router } from './router.js';
import type { Session } from './session.js';
import { Sessions } from './sessions.js';
import type { Shared } from './shared.js';
import { statementsOf } from './statements.js';
import { SysTopics, type SysValues } from './sys-topics.js';
import type { RetainedRow } from './tables.js';
import { Wills } from './wills.js';

export interface BrokerOptions {
  readonly store: Store;
  readonly admit: Admit;
  readonly listeners: readonly ListenerOptions[];
  readonly limits?: Partial<BrokerLimits>;
  readonly access?: Access;
  /** Shown in `$SYS/broker/version`. */
  readonly version?: string;
  /** Further values to show below `$SYS/broker/`. */
  readonly sys?: () => Promise<SysValues>;
  readonly clock: Clock;
  readonly log: Log;
}

export interface BrokerStatus {
  readonly clients: number;
  /** Connections that have not been accepted yet. */
  readonly connecting: number;
  /** Connections taken since the start, and connections that were turned away. */
  readonly connections: number;
  readonly turnedAway: number;
  /** Sessions that were taken over from a connection that was still open. */
  readonly takeovers: number;
  readonly sessions: number;
  readonly subscriptions: number;
  readonly retained: number;
  readonly retainedBytes: number;
  /** Messages since the start, and bytes of all packets. */
  readonly received: number;
  readonly receivedBytes: number;
  readonly sent: number;
  readonly sentBytes: number;
  readonly dropped: Readonly<Record<DropReason, number>>;
  /** Connections that are not read because too much of theirs waits to be committed. */
  readonly pausedClients: number;
  /** Messages taken in and not yet durable. */
  readonly pending: number;
  /** Rows of all persistent sessions. */
  readonly queuedRows: number;
  /** Bytes of their payloads. */
  readonly queuedBytes: number;
  /** Clients that were not let in, since the start. */
  readonly failedLogins: number;
}

/** How often deadlines are looked at: keepalives, wills, sessions. */
const SWEEP_MS = 250;
const CLOSE_BUDGET_MS = 5_000;
const ALL_TAKEN = 'all places are taken';

export class Broker {
  /** To be opened by the store. */
  static readonly tables = new URL('./tables.js', import.meta.url);

  private readonly shared: Shared;
  private readonly intake: Intake;
  private readonly sessions: Sessions;
  private readonly core: AedesCore;
  private readonly connections = new Set<Connection>();
  private readonly listeners: Listener[] = [];
  private readonly guard: AddressGuard;
  private readonly closer = new Closer();
  private closing: Promise<void> | undefined;

  private constructor(shared: Shared, core: AedesCore) {
    this.shared = shared;
    this.core = core;
    this.guard = new AddressGuard(shared.limits);
    this.intake = new Intake(shared);
    this.sessions = new Sessions(shared, new Wills(shared, this.intake));
  }

  /** Throws `listen.failed` when a door cannot be opened, and has then closed what it had opened. */
  static async open(options: BrokerOptions): Promise<Broker> {
    const { store, admit, clock, log, access = anonymousAccess } = options;
    const limits = { ...DEFAULT_LIMITS, ...options.limits };
    const statements = statementsOf(store);
    const retained = new RetainedStore(limits);
    const router = new Router<Session>(({ principal }, topic) => access.mayReceive(principal, topic));
    const counters = new Counters();
    const complaints = new RateLimit();
    const shared = { store, statements, admit, access, router, retained, limits, counters, clock, log, complaints };
    const broker = new Broker(shared, await AedesCore.open(log));
    try {
      await broker.start(options);
      return broker;
    } catch (error) {
      await broker.close();
      throw error;
    }
  }

  /** Where it listens, in the order of the options, with the ports that were bound. */
  get addresses(): readonly string[] {
    return this.listeners.map(({ url }) => url);
  }

  status(): BrokerStatus {
    const { router, retained, counters } = this.shared;
    const { clients, connections, turnedAway, takeovers, received, receivedBytes, sent, sentBytes, dropped } = counters;
    let pausedClients = 0;
    for (const connection of this.connections) if (connection.isChoked) pausedClients++;
    let queuedRows = 0;
    let queuedBytes = 0;
    for (const { rows, rowBytes } of this.sessions.values()) {
      queuedRows += rows;
      queuedBytes += rowBytes;
    }
    return {
      clients,
      connecting: this.connections.size - clients,
      connections,
      turnedAway,
      takeovers,
      sessions: this.sessions.count,
      subscriptions: router.count,
      retained: retained.count,
      retainedBytes: retained.bytes,
      received,
      receivedBytes,
      sent,
      sentBytes,
      dropped: { ...dropped },
      pausedClients,
      pending: this.intake.pendingMessages,
      queuedRows,
      queuedBytes,
      failedLogins: counters.failedLogins,
    };
  }

  /** For publishers in this process. Resolves when all messages are durable, and then they are delivered. */
  publish(items: readonly { message: Message; identity: Identity | null }[]): Promise<void> {
    if (items.length === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      let left = items.length;
      for (const { message, identity } of items) {
        this.intake.publish({ ...message, sender: null, user: null, deadline: 0 }, identity, null, (error) => {
          if (error) reject(error);
          else if (--left === 0) resolve();
        });
      }
    });
  }

  /**
   * Reads passwords, access rules and certificates anew. All of them take effect, and clients whose password is no longer
   * the same are disconnected; or, when one of the files cannot be used, none does, and it throws `config.invalid` with
   * everything that is wrong.
   */
  async reload(): Promise<void> {
    const access = this.shared.access.prepare();
    const listeners = this.listeners.map((listener) => listener.prepare());
    await allOrProblems('nothing is reloaded', [access, ...listeners]);
    for (const apply of await Promise.all(listeners)) apply();
    const isRevoked = (await access)();
    for (const connection of [...this.connections]) {
      // What was asked before may be answered after; it can ask again.
      if (!connection.isReady) connection.close();
      else if (isRevoked(connection.user))
        connection.disconnect(REASON.administrativeAction, 'credentials have changed');
    }
  }

  /**
   * Listens no more, reads no more, waits up to `budgetMs`, or until `hurry` aborts, until what was taken in is committed
   * and acknowledged, publishes the wills of the clients that are thrown out, and says goodbye to them. Idempotent.
   */
  close({ budgetMs = CLOSE_BUDGET_MS, hurry }: { budgetMs?: number; hurry?: AbortSignal } = {}): Promise<void> {
    this.closing ??= this.shut(budgetMs, hurry);
    return this.closing;
  }

  private async start({ listeners, version = 'unknown', sys: more = async () => ({}) }: BrokerOptions): Promise<void> {
    const { shared, sessions, closer } = this;
    for (const row of await shared.store.query<RetainedRow[]>('broker.retained')) {
      const [topic, payload, props, qos, deadline, sender, user, storedAt] = row;
      shared.retained.set({ topic, payload, props, qos: qos as Qos, deadline, sender, user, storedAt });
    }
    await sessions.load();
    const sweep = setInterval(() => this.sweep(), SWEEP_MS);
    closer.push('deadlines', () => clearInterval(sweep));
    const expire = setInterval(() => this.expireMessages(), shared.limits.expirySweepMs);
    closer.push('expiry', () => clearInterval(expire));
    const sys = new SysTopics(shared, { status: () => this.status(), version, more });
    sys.start();
    closer.push('$SYS', () => sys.close());
    for (const options of listeners) {
      const door = {
        onConnection: (stream: Duplex, entrance: Entrance): void => this.accept(stream, entrance),
        onDropped: (address: string): void => this.turnedAway(address, ALL_TAKEN),
      };
      this.listeners.push(await listen(options, shared.limits, shared.log, door));
    }
  }

  private accept(stream: Duplex, entrance: Entrance): void {
    const { shared, core, intake, sessions, connections, guard } = this;
    const { address } = entrance;
    const full = connections.size >= shared.limits.clientsMax;
    if (this.closing || full || !guard.enter(address, shared.clock.mono())) {
      stream.on('error', () => {});
      stream.destroy();
      if (!this.closing) this.turnedAway(address, full ? ALL_TAKEN : 'too many or too fast from there');
      return;
    }
    const onClosed = (connection: Connection): void => {
      connections.delete(connection);
      guard.leave(address);
    };
    const context = { shared, core, intake, sessions, entrance, onClosed };
    const connection = new Connection(context, stream);
    connections.add(connection);
    shared.counters.connections++;
    connection.open();
  }

  private turnedAway(address: string, cause: string): void {
    const { counters, complaints, log } = this.shared;
    counters.turnedAway++;
    const heldBack = complaints.pass(`turned away ${cause}`);
    if (heldBack !== undefined) log.warn({ address, cause, heldBack }, 'A connection is turned away');
  }

  private sweep(): void {
    const now = this.shared.clock.mono();
    for (const connection of this.connections) connection.tick(now);
    this.sessions.sweep();
    this.guard.sweep(now);
  }

  private expireMessages(): void {
    const { retained, clock, store, statements } = this.shared;
    for (const topic of retained.expire(clock.now())) store.ride(statements.retainedDelete(topic));
    this.sessions.expireQueued();
  }

  private async shut(budgetMs: number, hurry: AbortSignal | undefined): Promise<void> {
    // A server's `close` waits for its connections, which are only ended further down.
    const doors = this.listeners.map((listener) => listener.close());
    for (const connection of this.connections) connection.stop();
    await this.settled(budgetMs, hurry);
    for (const connection of [...this.connections]) connection.disconnect(REASON.shuttingDown, 'shutting down');
    await this.settled(budgetMs, hurry);
    await this.core.shut();
    await this.closer.close();
    await Promise.all(doors);
  }

  private async settled(budgetMs: number, hurry: AbortSignal | undefined): Promise<void> {
    const settled = new AbortController();
    const signal = hurry ? AbortSignal.any([settled.signal, hurry]) : settled.signal;
    await Promise.race([this.intake.idle(), sleep(budgetMs, signal)]);
    settled.abort();
  }
}
