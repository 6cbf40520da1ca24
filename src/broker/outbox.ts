/**
 * Everything that goes out to one connection, in order and within its window. Three sources, used up in this order:
 * retained messages of a new subscription, a bounded queue in memory (clean sessions), and the session's rows in the table.
 *
 * A row of a persistent session is inserted by the unit that stores the message. If nothing is waiting and the window has
 * room, its packet id is reserved before that and stored in the row, and the message leaves right after the commit.
 * Otherwise the row waits, and is read in pages when acknowledgements make room. So there is one order, live and replay
 * cannot overtake each other, and a slow subscriber costs disk and not memory.
 *
 * Invariant: in a persistent session every entry of the window is one of `session.rows`; the others wait in the table.
 */
import type { Duplex } from 'node:stream';
import type { HoldfastError } from '../lib/errors.js';
import type { Qos } from '../model/message.js';
import { MemoryQueue } from './memory-queue.js';
import type { Output } from './output.js';
import { type InFlight, PacketWindow } from './packet-window.js';
import { ACK, measurePublish, type Shape, writePublish } from './publish-codec.js';
import { trimQueue } from './queue-cap.js';
import { ProtocolError, REASON } from './reason.js';
import type { Session } from './session.js';
import type { Shared } from './shared.js';
import type { OutgoingRow } from './tables.js';

export interface Outgoing {
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly props: Uint8Array | null;
  /** Wall time in ms; 0: does not expire. */
  readonly deadline: number;
}

/** How a message goes to this client. */
export interface Manner {
  readonly qos: Qos;
  readonly retain: boolean;
  readonly ids: readonly number[] | null;
}

export interface OutboxOptions {
  readonly socket: Duplex;
  readonly output: Output;
  readonly version: number;
  /** What the client has asked for in CONNECT. */
  readonly receiveMaximum: number;
  readonly packetBytesMax: number;
  readonly topicAliasMax: number;
  /** The table cannot be read any more. */
  readonly onFailure: (error: unknown) => void;
}

/** One answer of the store: it comes between commits, so a page has to be worth the wait, but not fill memory. */
const PAGE_ROWS = 1_000;
const PAGE_BYTES = 1024 * 1024;
/** An alias pays off for topics that come often; the first ones usually do. */
const ALIASES_MAX = 100;

export class Outbox {
  private readonly shared: Shared;
  private readonly session: Session;
  private readonly options: OutboxOptions;
  private readonly window: PacketWindow;
  private readonly memory: MemoryQueue;
  private readonly aliases = new Map<string, number>();
  private readonly onDrain = () => this.pump();
  /** Reserved ids whose commit is outstanding. */
  private uncommitted = 0;
  private uncommittedBytes = 0;
  /** Rows up to here have been taken from the table. */
  private lastSeq = 0;
  /** Rows behind `lastSeq` that went out without being read from the table. */
  private readonly sentAhead = new Set<number>();
  private reading = false;
  private rowsArrived = false;
  private started = false;
  private closed = false;

  constructor(shared: Shared, session: Session, options: OutboxOptions) {
    this.shared = shared;
    this.session = session;
    this.options = options;
    this.window = new PacketWindow(Math.min(options.receiveMaximum, shared.limits.windowMessagesMax));
    this.memory = new MemoryQueue(shared);
  }

  /** Before `start`: the ids that rows of this session hold. */
  hold(ids: readonly number[]): void {
    this.window.hold(ids);
  }

  /** After CONNACK. */
  start(): void {
    this.started = true;
    this.options.socket.on('drain', this.onDrain);
    this.pump();
  }

  close(): void {
    this.closed = true;
    this.options.socket.off('drain', this.onDrain);
    this.memory.clear();
  }

  /** A message could leave at once. */
  hasRoom(): boolean {
    return this.started && this.memory.isEmpty && this.waitingRows === 0 && this.window.hasRoom && !this.socketIsFull;
  }

  /** No row waits for its turn. */
  get hasNoneWaiting(): boolean {
    return this.waitingRows === 0;
  }

  /** A page of rows is on its way. */
  get isReading(): boolean {
    return this.reading;
  }

  /** Rows up to this seq are none of those that wait. */
  get takenUpTo(): number {
    return this.lastSeq;
  }

  /** A packet id for a row that is about to be submitted, or 0: it has to wait in the table. */
  reserve(qos: Qos, bytes: number): number {
    // Half of the window stays for rows in the table, so that commits that are held back cannot use up all of it.
    if (this.closed || !this.hasRoom() || this.uncommitted >= Math.max(1, this.window.size >> 1)) return 0;
    if (this.uncommittedBytes + bytes > this.shared.limits.socketBytesMax) return 0;
    this.uncommitted++;
    this.uncommittedBytes += bytes;
    return this.window.add(qos, 0, bytes);
  }

  /** The row with the reserved `id` was not written. */
  cancel(id: number, bytes: number): void {
    if (!this.window.delete(id)) return;
    this.uncommitted--;
    this.uncommittedBytes -= bytes;
    this.pump();
  }

  /** The row with the reserved `id` is committed as `seq`. */
  sendReserved(message: Outgoing, manner: Manner, id: number, seq: number): void {
    const entry = this.window.get(id);
    if (this.closed || !entry) return;
    entry.seq = seq;
    this.uncommitted--;
    this.uncommittedBytes -= message.payload.length;
    if (this.waitingRows > 0 || this.reading) this.sentAhead.add(seq);
    else if (seq > this.lastSeq) this.lastSeq = seq;
    if (this.memory.isEmpty) this.write(message, manner, id, false);
    else this.memory.push({ message, manner, id });
  }

  /** A row without a packet id is committed. */
  wake(): void {
    this.rowsArrived = true;
    this.pump();
  }

  /** A message without a row: QoS 0, or to a clean session. */
  send(message: Outgoing, manner: Manner): void {
    if (this.closed || !this.started) return;
    if (this.memory.isEmpty && !this.socketIsFull && (manner.qos === 0 || this.window.hasRoom)) {
      this.write(message, manner, manner.qos > 0 ? this.window.add(manner.qos, 0, 0) : 0, false);
    } else if (manner.qos === 0 && this.socketIsFull) this.shared.counters.dropped['slow-subscriber']++;
    else this.memory.offer(message, manner);
  }

  /** Retained messages of a new subscription; what comes later waits for them. */
  sendRetained(items: { message: Outgoing; manner: Manner }[]): void {
    if (this.closed || items.length === 0) return;
    this.memory.feed(items);
    this.pump();
  }

  /** PUBACK (QoS 1), or PUBCOMP or PUBREC with an error (QoS 2): the message is done. Throws ProtocolError. */
  acknowledged(id: number, qos: 1 | 2): void {
    const entry = this.window.get(id);
    // Unknown ids are left alone: after a takeover acknowledgements of the earlier connection may still come.
    if (!entry || (entry.seq === 0 && this.session.persistent)) return;
    if (qos !== entry.qos) throw new ProtocolError(REASON.protocolError, 'wrong acknowledgement');
    this.finish(id, entry);
    this.pump();
  }

  /** PUBREC: PUBREL leaves once it is durable that only PUBREL may be sent for this id [MQTT-4.3.3-5]. */
  released(id: number): void {
    const entry = this.window.get(id);
    const pubrel = (): void => {
      if (!this.closed) this.options.output.ack(ACK.pubrel, id, entry ? 0 : this.reasonIfV5(REASON.packetIdNotFound));
    };
    if (entry && entry.qos !== 2) throw new ProtocolError(REASON.protocolError, 'wrong acknowledgement');
    if (!entry || entry.seq === 0) {
      pubrel();
      return;
    }
    this.shared.store.submit([this.shared.statements.outgoingRelease(entry.seq)], (error) => {
      if (error) {
        this.options.onFailure(error);
        return;
      }
      // Of the row only the packet id is left.
      this.session.rowBytes -= entry.bytes;
      entry.bytes = 0;
      pubrel();
    });
  }

  private get waitingRows(): number {
    return this.session.persistent ? this.session.rows - this.window.used : 0;
  }

  private get socketIsFull(): boolean {
    return this.options.output.waitingBytes > this.shared.limits.socketBytesMax;
  }

  private reasonIfV5(reason: number): number {
    return this.options.version === 5 ? reason : 0;
  }

  private pump(): void {
    if (!this.started || this.closed) return;
    while (!this.memory.isEmpty && !this.socketIsFull) {
      const next = this.memory.peek();
      if (next.manner.qos > 0 && next.id === 0 && !this.window.hasRoom) return;
      this.memory.shift();
      this.write(
        next.message,
        next.manner,
        next.id || (next.manner.qos > 0 ? this.window.add(next.manner.qos, 0, 0) : 0),
        false,
      );
    }
    const mayRead = !this.reading && !this.session.trimming && this.waitingRows > 0;
    if (mayRead && this.memory.isEmpty && !this.socketIsFull && this.window.hasRoom) this.read();
  }

  private read(): void {
    this.reading = true;
    this.rowsArrived = false;
    const rows = Math.min(PAGE_ROWS, this.window.size - this.window.used);
    this.shared.store
      .query<OutgoingRow[]>('broker.outgoing', this.session.key, this.lastSeq, rows, PAGE_BYTES)
      .then((page) => this.prepare(page))
      .catch((error) => this.options.onFailure(error));
  }

  /** Gives the rows of a page their packet ids. For QoS 2 these are durable before the message leaves [MQTT-4.3.3-1]. */
  private prepare(page: readonly OutgoingRow[]): void {
    if (this.closed) return;
    const { store, statements } = this.shared;
    const sends: { row: OutgoingRow; id: number; dup: boolean }[] = [];
    const updates = [];
    let durably = false;
    for (const row of page) {
      const [seq, storedId, , , { length }, , qos] = row;
      if (this.sentAhead.delete(seq)) continue;
      if (storedId !== null && this.window.keep(storedId, qos as Qos, seq, length)) {
        sends.push({ row, id: storedId, dup: true });
        continue;
      }
      const id = this.window.add(qos as Qos, seq, length);
      updates.push(statements.outgoingPacketId(id, seq));
      durably ||= qos === 2;
      sends.push({ row, id, dup: false });
    }
    const last = page.at(-1)?.[0];
    if (last !== undefined) {
      this.lastSeq = last;
      for (const seq of this.sentAhead) if (seq <= last) this.sentAhead.delete(seq);
    }
    const go = (error: HoldfastError | null): void => {
      if (this.closed) return;
      if (error) {
        this.options.onFailure(error);
        return;
      }
      for (const { row, id, dup } of sends) this.resend(row, id, dup);
      this.reading = false;
      trimQueue(this.session, this.shared);
      if (page.length > 0 || this.rowsArrived) this.pump();
    };
    if (durably) store.submit(updates, go);
    else {
      for (const update of updates) store.ride(update);
      go(null);
    }
  }

  private resend(row: OutgoingRow, id: number, dup: boolean): void {
    const [, , released, topic, payload, props, qos, retain, deadline, ids] = row;
    if (released) this.options.output.ack(ACK.pubrel, id, 0);
    else {
      const manner = { qos: qos as Qos, retain: retain === 1, ids: ids === null ? null : JSON.parse(ids) };
      this.write({ topic, payload, props, deadline }, manner, id, dup);
    }
  }

  /** What has expired, is too large for this client or not for its eyes counts as delivered [MQTT-3.1.2-25, MQTT-3.3.2-5]. */
  private write(message: Outgoing, manner: Manner, id: number, dup: boolean): void {
    const { output, version, packetBytesMax, topicAliasMax } = this.options;
    const { counters, clock, access } = this.shared;
    if (!access.mayReceive(this.session.principal, message.topic)) {
      this.forget(id);
      return;
    }
    const expiryS = message.deadline > 0 ? Math.ceil((message.deadline - clock.now()) / 1000) : 0;
    if (message.deadline > 0 && expiryS <= 0) {
      counters.dropped.expired++;
      this.forget(id);
      return;
    }
    let alias = topicAliasMax > 0 ? (this.aliases.get(message.topic) ?? 0) : 0;
    const aliasIsNew = alias === 0 && this.aliases.size < Math.min(topicAliasMax, ALIASES_MAX);
    if (aliasIsNew) alias = this.aliases.size + 1;
    const { qos, retain, ids } = manner;
    const shape: Shape = { qos, retain, dup, packetId: id, subscriptionIds: ids, alias, aliasIsNew, expiryS };
    const measured = measurePublish(version, message, shape);
    if (measured.bytes > packetBytesMax) {
      counters.dropped['too-large']++;
      this.forget(id);
      return;
    }
    if (aliasIsNew) this.aliases.set(message.topic, alias);
    const start = output.reserve(measured.bytes);
    writePublish(output.buffer, start, version, message, shape, measured);
    counters.sent++;
    counters.sentPayloadBytes += message.payload.length;
  }

  private forget(id: number): void {
    const entry = this.window.get(id);
    if (entry) this.finish(id, entry);
  }

  private finish(id: number, entry: InFlight): void {
    const { seq, bytes } = entry;
    this.window.delete(id);
    if (seq === 0) return;
    this.session.rows--;
    this.session.rowBytes -= bytes;
    entry.bytes = 0;
    this.shared.store.ride(this.shared.statements.outgoingDelete(seq));
  }
}
