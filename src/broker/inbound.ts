/**
 * The messages one client publishes: checked, given to the intake, and acknowledged in the order in which they came
 * [MQTT-4.6.0-2, -3], although the commits behind them may finish in another one when some are held back.
 */
import type { HoldfastError } from '../lib/errors.js';
import type { Qos } from '../model/message.js';
import { ClientRate } from './client-rate.js';
import type { Inbound, Intake } from './intake.js';
import type { Output } from './output.js';
import { ACK, type AckByte, decodePublish, type PublishPacket } from './publish-codec.js';
import { ProtocolError, REASON } from './reason.js';
import type { Session } from './session.js';
import type { Shared } from './shared.js';
import { checkTopic, isReserved } from './topics.js';

interface Slot {
  readonly byte: AckByte;
  readonly packetId: number;
  reason: number;
  ready: boolean;
}

export interface InboundOwner {
  readonly output: Output;
  readonly version: number;
  readonly isClosed: boolean;
  /** Stop or go on reading the socket. */
  choke(choked: boolean): void;
  /** Read nothing more for so long. */
  slowDown(ms: number): void;
  /** A message could not be stored: no acknowledgement, the connection ends. */
  onNotStored(error: HoldfastError): void;
}

const COMPACT_SLOTS = 4_096;

export class InboundMessages {
  private readonly shared: Shared;
  private readonly intake: Intake;
  private readonly owner: InboundOwner;
  private readonly session: Session;
  private readonly aliases = new Map<number, string>();
  private slots: Slot[] = [];
  private head = 0;
  private pendingMessages = 0;
  private pendingBytes = 0;
  private choked = false;
  private readonly rate: ClientRate | null;
  /** QoS 1 and 2 messages of this connection that are not acknowledged to their end. */
  private openMessages = 0;

  constructor(shared: Shared, intake: Intake, owner: InboundOwner, session: Session) {
    this.shared = shared;
    this.intake = intake;
    this.owner = owner;
    this.session = session;
    this.rate = ClientRate.of(shared.limits);
  }

  private readonly isAbandoned = (): boolean => this.owner.isClosed;

  /** Throws ProtocolError. */
  receive(frame: Buffer, bodyAt: number): void {
    const packet = decodePublish(frame, bodyAt, this.owner.version);
    const topic = this.topicOf(packet);
    const { payload, qos, retain, packetId, properties } = packet;
    const { session, shared } = this;
    const pauseMs = this.rate?.take(frame.length, shared.clock.mono()) ?? 0;
    if (pauseMs > 0) this.owner.slowDown(pauseMs);
    if (isReserved(topic) || !shared.access.mayPublish(session.principal, topic)) {
      shared.counters.dropped.denied++;
      // A 3.1.1 client cannot be told, and closing would punish it for ever: acknowledged and dropped, as by Mosquitto.
      if (qos > 0) this.settle(this.open(qos, packetId), this.owner.version === 5 ? REASON.notAuthorized : 0);
      return;
    }
    if (qos === 2 && !session.persistent) {
      // The set dies with the session, so an id may enter it before its message is stored: if that fails, both end.
      if (session.received.has(packetId)) {
        this.settle(this.open(2, packetId), 0);
        return;
      }
      session.received.add(packetId);
      session.halfOpen = session.received.size;
    }
    if (session.halfOpen > shared.limits.halfOpenMax)
      throw new ProtocolError(REASON.receiveMaximumExceeded, 'too many QoS 2 messages are not released');
    const expiryS = properties?.expiryS;
    const message: Inbound = {
      topic,
      payload,
      qos,
      retain,
      props: properties?.bytes ?? null,
      sender: session.id,
      user: session.user,
      refusable: qos > 0 && this.owner.version === 5,
      deadline: expiryS === undefined ? 0 : shared.clock.now() + expiryS * 1000,
      isAbandoned: qos > 0 ? this.isAbandoned : undefined,
    };
    this.store(message, packetId);
  }

  /** PUBREL: the id is free for another message once that is durable, and then PUBCOMP says so [MQTT-4.3.3-11]. */
  release(packetId: number): void {
    const { session, shared, owner } = this;
    const complete = (known: boolean): void => {
      const reason = known || owner.version !== 5 ? 0 : REASON.packetIdNotFound;
      // It may be of an earlier connection of this session.
      if (this.openMessages > 0) this.openMessages--;
      if (!owner.isClosed) owner.output.ack(ACK.pubcomp, packetId, reason);
    };
    if (!session.persistent) {
      complete(session.received.delete(packetId));
      session.halfOpen = session.received.size;
      return;
    }
    shared.store.submit([shared.statements.incomingDelete(session.key, packetId)], (error, results, at) => {
      if (error) return owner.onNotStored(error);
      const known = results[at] === 1;
      if (known) session.halfOpen--;
      complete(known);
    });
  }

  private store(message: Inbound, packetId: number): void {
    const { session, shared } = this;
    const slot = message.qos > 0 ? this.open(message.qos, packetId) : null;
    const guarded = message.qos === 2 && session.persistent;
    const lead = guarded ? { ...shared.statements.incomingPut(session.key, packetId), guard: true } : null;
    const bytes = message.payload.length;
    this.pendingMessages++;
    this.pendingBytes += bytes;
    this.intake.publish(message, null, lead, (error, duplicate) => {
      this.pendingMessages--;
      this.pendingBytes -= bytes;
      if (error?.code === 'spool.refused' && slot) this.refuse(slot);
      else if (error) return this.owner.onNotStored(error);
      else {
        if (guarded && !duplicate) session.halfOpen++;
        if (slot) this.settle(slot, 0);
      }
      if (this.choked) this.unchoke();
    });
    const { pendingMessagesMax, pendingBytesMax } = shared.limits;
    if (this.choked) return;
    if (this.pendingMessages >= pendingMessagesMax || this.pendingBytes >= pendingBytesMax || this.intake.isFull) {
      this.choked = true;
      this.owner.choke(true);
    }
  }

  /** By the operator's choice: the client is told that it has to keep the message, and most clients do not. */
  private refuse(slot: Slot): void {
    const { session, shared } = this;
    shared.counters.dropped.refused++;
    if (slot.byte === ACK.pubrec && session.received.delete(slot.packetId)) session.halfOpen = session.received.size;
    this.settle(slot, REASON.quotaExceeded);
  }

  private readonly unchoke = (): void => {
    const { pendingMessagesMax, pendingBytesMax } = this.shared.limits;
    if (!this.choked || this.pendingMessages > pendingMessagesMax / 2 || this.pendingBytes > pendingBytesMax / 2)
      return;
    if (this.intake.isFull) {
      this.intake.wait(this.unchoke);
      return;
    }
    this.choked = false;
    this.owner.choke(false);
  };

  private topicOf({ topic, topicBytes, properties }: PublishPacket): string {
    const alias = properties?.alias;
    if (alias === undefined) {
      checkTopic(topic, topicBytes, this.shared.limits);
      return topic;
    }
    if (alias === 0 || alias > this.shared.limits.topicAliasMax)
      throw new ProtocolError(REASON.badTopicAlias, 'the topic alias is out of range');
    if (topic === '') {
      const known = this.aliases.get(alias);
      if (known === undefined) throw new ProtocolError(REASON.protocolError, 'the topic alias is unknown');
      return known;
    }
    checkTopic(topic, topicBytes, this.shared.limits);
    this.aliases.set(alias, topic);
    return topic;
  }

  private open(qos: Qos, packetId: number): Slot {
    const slot = { byte: qos === 1 ? ACK.puback : ACK.pubrec, packetId, reason: 0, ready: false };
    this.slots.push(slot);
    const { strictReceiveMaximum, receiveMaximum } = this.shared.limits;
    this.openMessages++;
    if (strictReceiveMaximum && this.owner.version === 5 && this.openMessages > receiveMaximum)
      throw new ProtocolError(REASON.receiveMaximumExceeded, 'more messages are open than Receive Maximum');
    return slot;
  }

  private settle(slot: Slot, reason: number): void {
    slot.ready = true;
    slot.reason = reason;
    const { slots } = this;
    for (let next = slots[this.head]; next?.ready; next = slots[++this.head]) this.acknowledge(next);
    if (this.head === slots.length) this.slots = [];
    else if (this.head >= COMPACT_SLOTS) this.slots = slots.slice(this.head);
    else return;
    this.head = 0;
  }

  private acknowledge({ byte, packetId, reason }: Slot): void {
    if (byte === ACK.puback || reason >= REASON.unspecified) this.openMessages--;
    if (!this.owner.isClosed) this.owner.output.ack(byte, packetId, reason);
  }
}
