import type { Buffer } from 'node:buffer';
import type { IPublishPacket, Packet } from 'mqtt-packet';
import type { Qos } from '../../model/message.js';
import { Fifo } from '../fifo.js';
import { REASON } from './reason.js';

/** What a publisher gave, on its way to subscribers. */
export interface CloudMessage {
  readonly topic: string;
  readonly payload: Buffer;
  /** As mqtt-packet parses them; only MQTT 5 subscribers get them. */
  readonly properties: IPublishPacket['properties'];
  /** On the monotonic clock; Infinity when it does not expire. */
  readonly expiresMono: number;
}

export interface Delivery {
  readonly message: CloudMessage;
  readonly qos: Qos;
  readonly retain: boolean;
}

interface InFlight extends Delivery {
  readonly messageId: number;
  /** QoS 2: the client has the message, PUBREL is what it must hear next. */
  released: boolean;
}

/** The connection of a session, as far as the session knows it. */
export interface Sender {
  readonly windowMax: number;
  /** False while what was written has not left; `pump` is called again when it has. */
  readonly ready: boolean;
  /** False when the client does not take a packet of this size [MQTT-3.1.2-24]. */
  send(packet: Packet): boolean;
  takenOver(): void;
}

export interface SessionLimits {
  /** Messages and their bytes that one session is owed, those in flight included. */
  readonly queueMax: number;
  readonly queueBytesMax: number;
}

export interface SessionCounters {
  delivered: number;
  redelivered: number;
  /** QoS 0 for a queue that was full, expired, or larger than the client takes. */
  dropped: number;
}

/** What a queued message costs beside its payload and topic. */
const MESSAGE_OVERHEAD_BYTES = 200;
const MESSAGE_ID_MAX = 65_535;

/**
 * One client's session [MQTT 5.0 §4.1]: the messages it is owed and the packet ids in use, across connections. Messages
 * leave in the order in which they came; no more than the window of the connection is unacknowledged at a time. On a new
 * connection everything unacknowledged is sent first, in its old order, with its old id and DUP [MQTT-4.4.0-1].
 */
export class Session {
  readonly clientId: string;
  /** QoS 2 publishes of the client that are not released yet [MQTT-4.3.3-10]. */
  readonly incoming = new Set<number>();
  sender: Sender | undefined;
  /** When it ends on the monotonic clock; Infinity while it is connected or when it does not end. */
  endsMono = Number.POSITIVE_INFINITY;
  private readonly limits: SessionLimits;
  private readonly counters: SessionCounters;
  private readonly queue = new Fifo<Delivery>();
  private heldBytes = 0;
  private readonly inFlight = new Map<number, InFlight>();
  private again = new Fifo<InFlight>();
  /** Ids sent on this connection and not acknowledged: what the client's Receive Maximum counts. */
  private readonly unacked = new Set<number>();
  private lastId = 0;

  constructor(clientId: string, limits: SessionLimits, counters: SessionCounters) {
    this.clientId = clientId;
    this.limits = limits;
    this.counters = counters;
  }

  /** Messages that are owed, those in flight included. */
  get queued(): number {
    return this.queue.length + this.inFlight.size;
  }

  attach(sender: Sender): void {
    this.sender = sender;
    this.endsMono = Number.POSITIVE_INFINITY;
    this.unacked.clear();
    this.again = new Fifo();
    for (const delivery of this.inFlight.values()) this.again.push(delivery);
    this.pump();
  }

  detach(endsMono: number): void {
    this.sender = undefined;
    this.endsMono = endsMono;
  }

  hasRoom(message: CloudMessage): boolean {
    const { queueMax, queueBytesMax } = this.limits;
    return this.queued < queueMax && this.heldBytes + bytesOf(message) <= queueBytesMax;
  }

  /** QoS 0 is dropped for a session that is away, or full; for the others ask `hasRoom` first. */
  enqueue(delivery: Delivery): void {
    if (delivery.qos === 0 && !(this.sender && this.hasRoom(delivery.message))) {
      this.counters.dropped++;
      return;
    }
    this.queue.push(delivery);
    this.heldBytes += bytesOf(delivery.message);
    this.pump();
  }

  /** PUBACK, PUBCOMP, or a PUBREC that refuses. */
  acknowledged(messageId: number): void {
    this.settle(messageId);
    this.pump();
  }

  /** PUBREC; the code for the PUBREL that answers it. */
  received(messageId: number): number {
    const delivery = this.inFlight.get(messageId);
    if (delivery?.qos !== 2) return REASON.packetIdNotFound;
    delivery.released = true;
    return REASON.success;
  }

  pump(): void {
    while (this.sender?.ready) {
      const resend = this.again.peek();
      const next = resend ?? this.queue.peek();
      if (!next || (next.qos > 0 && this.unacked.size >= this.sender.windowMax)) return;
      if (resend) {
        this.again.shift();
        if (this.inFlight.has(resend.messageId)) this.transmit(this.sender, resend, true);
      } else {
        this.queue.shift();
        this.start(this.sender, next);
      }
    }
  }

  private start(sender: Sender, delivery: Delivery): void {
    const expired = delivery.message.expiresMono <= performance.now();
    if (expired) this.counters.dropped++;
    if (expired || delivery.qos === 0) this.heldBytes -= bytesOf(delivery.message);
    if (expired) return;
    const messageId = delivery.qos > 0 ? this.freeId() : 0;
    const started: InFlight = { ...delivery, messageId, released: false };
    if (delivery.qos > 0) this.inFlight.set(messageId, started);
    this.transmit(sender, started, false);
  }

  private transmit(sender: Sender, delivery: InFlight, dup: boolean): void {
    const { messageId, qos } = delivery;
    if (qos > 0) this.unacked.add(messageId);
    const sent = sender.send(
      delivery.released ? { cmd: 'pubrel', messageId, reasonCode: 0 } : publishOf(delivery, dup && qos > 0),
    );
    if (sent) {
      if (dup) this.counters.redelivered++;
      else this.counters.delivered++;
      return;
    }
    this.counters.dropped++;
    this.settle(messageId);
  }

  private settle(messageId: number): void {
    const delivery = this.inFlight.get(messageId);
    if (delivery) this.heldBytes -= bytesOf(delivery.message);
    this.inFlight.delete(messageId);
    this.unacked.delete(messageId);
  }

  /** The window is smaller than the number of ids, and what waits in `again` had its place in an earlier window. */
  private freeId(): number {
    do this.lastId = this.lastId >= MESSAGE_ID_MAX ? 1 : this.lastId + 1;
    while (this.inFlight.has(this.lastId));
    return this.lastId;
  }
}

function publishOf({ message, qos, retain, messageId }: InFlight, dup: boolean): IPublishPacket {
  const { topic, payload, properties, expiresMono } = message;
  const packet: IPublishPacket = { cmd: 'publish', topic, payload, qos, retain, dup };
  if (qos > 0) packet.messageId = messageId;
  if (properties) packet.properties = properties;
  if (Number.isFinite(expiresMono)) {
    const leftSeconds = Math.max(1, Math.ceil((expiresMono - performance.now()) / 1000));
    packet.properties = { ...properties, messageExpiryInterval: leftSeconds };
  }
  return packet;
}

function bytesOf(message: CloudMessage): number {
  return message.payload.length + message.topic.length + MESSAGE_OVERHEAD_BYTES;
}
