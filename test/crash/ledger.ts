/**
 * What a gateway has promised up to a moment, read from nothing but the bytes on its sockets: messages it acknowledged to
 * their publishers, batches that the cloud acknowledged to it, and what follows from them for retained messages, sessions,
 * their queues and QoS 2. Every message has a number of its own in its payload.
 */
import { strict as assert } from 'node:assert';
import type { IConnectPacket, IPublishPacket, ISubackPacket, ISubscribePacket, Packet } from 'mqtt-packet';
import { decodeBatch } from '../../src/wire/decode.js';
import type { WireEvent } from './recording.js';
import { type PlantConnection, type TappedConnection, WireTap } from './wire-tap.js';

export interface Published {
  readonly id: number;
  readonly topic: string;
  readonly payload: string;
  readonly qos: number;
  acknowledged: boolean;
}

/** The gateway's own records in the stream; no client can publish there. */
export const OWN_TOPICS = '$holdfast/';

/** What was published as the retained value of a topic, in order; null cleared it. */
export interface RetainedHistory {
  readonly values: (number | null)[];
  /** Index of the newest value that was acknowledged, -1 for none. */
  promised: number;
}

export interface PromisedSession {
  /** CONNACK has left. */
  present: boolean;
  readonly filters: Set<string>;
  /** Messages that were acknowledged while a filter matched, and that the client has not acknowledged. */
  readonly owed: Set<number>;
  /** Messages of which the client has said PUBREC: only the packet id is still of use. */
  readonly received: Set<number>;
  /** Messages that are the client's; it may be sooner than its publisher hears of it. */
  readonly taken: Set<number>;
  /** Packet ids of QoS 2 messages of this client: promised from PUBREC until its PUBREL, free from PUBCOMP on. */
  readonly halfOpen: Set<number>;
  readonly free: Set<number>;
}

interface InFlight {
  readonly messages: Map<number, { message: Published; session: readonly PromisedSession[]; retainedAt: number }>;
  readonly outgoing: Map<number, number>;
  readonly asked: Map<number, string[]>;
}

export const BRIDGED = 'plant/';
const REASON_FAILURE_MIN = 0x80;

/** The number in a payload, or null when it has none. */
export function idOf(payload: string): number | null {
  const found = /"value":(\d+)/.exec(payload);
  return found ? Number(found[1]) : null;
}

export class Ledger {
  readonly published = new Map<number, Published>();
  /** Messages in bridged topics that a publisher was told are safe. */
  readonly acknowledged = new Set<number>();
  /** Messages in batches that the cloud acknowledged. */
  readonly delivered = new Set<number>();
  /** What each seq was sent as. */
  readonly sentAs = new Map<number, number>();
  readonly retained = new Map<string, RetainedHistory>();
  readonly sessions = new Map<string, PromisedSession>();
  epoch: string | null = null;
  /** Rises with every new promise and every one that is fulfilled. */
  version = 0;
  /** Promises that were broken on the wire itself. */
  readonly broken: string[] = [];
  private readonly batches = new Map<TappedConnection, Map<number, number[]>>();
  private readonly inFlight = new Map<TappedConnection, InFlight>();
  private readonly tap = new WireTap(
    (connection, out, packet) => this.heard(connection, out, packet),
    (connection) => {
      this.batches.delete(connection);
      this.inFlight.delete(connection);
    },
  );

  step(event: WireEvent): void {
    this.tap.step(event);
  }

  private heard(connection: TappedConnection, out: boolean, packet: Packet): void {
    if (connection.door === 'cloud') this.cloud(connection, out, packet);
    else if (out) this.toPlant(connection, packet);
    else this.fromPlant(connection, packet);
  }

  private cloud(connection: TappedConnection, out: boolean, packet: Packet): void {
    const batches = this.batches.get(connection) ?? new Map<number, number[]>();
    this.batches.set(connection, batches);
    if (out && packet.cmd === 'publish') batches.set(packet.messageId as number, this.batch(packet.payload as Buffer));
    if (out || packet.cmd !== 'puback' || (packet.reasonCode ?? 0) >= REASON_FAILURE_MIN) return;
    for (const id of batches.get(packet.messageId as number) ?? []) this.delivered.add(id);
    this.version++;
  }

  private batch(payload: Buffer): number[] {
    const { rows, source } = decodeBatch(payload);
    if (this.epoch !== null && this.epoch !== source.epoch) this.broken.push('the epoch has changed');
    this.epoch = source.epoch;
    const ids: number[] = [];
    for (const row of rows) {
      if (row.topic.startsWith(OWN_TOPICS)) continue;
      const id =
        row.type === 'p' ? idOf(Buffer.from(row.payload).toString()) : Number('value' in row ? row.value : Number.NaN);
      assert(id !== null && this.published.has(id), `the cloud gets only what was published, not ${row.topic} ${id}`);
      const before = this.sentAs.get(row.seq);
      if (before !== undefined && before !== id) this.broken.push(`seq ${row.seq} was sent as ${before} and as ${id}`);
      this.sentAs.set(row.seq, id);
      ids.push(id);
    }
    this.version++;
    return ids;
  }

  private fromPlant(connection: PlantConnection, packet: Packet): void {
    const session = this.sessions.get(connection.clientId);
    const flight = this.flight(connection);
    switch (packet.cmd) {
      case 'connect':
        this.connecting(connection, packet);
        break;
      case 'publish':
        this.publishing(connection, packet);
        break;
      case 'subscribe':
        flight.asked.set(packet.messageId as number, filtersOf(packet));
        break;
      case 'puback':
      case 'pubcomp': {
        const id = flight.outgoing.get(packet.messageId as number);
        if (id === undefined) break;
        session?.owed.delete(id);
        session?.received.delete(id);
        session?.taken.add(id);
        break;
      }
      case 'pubrec': {
        const id = flight.outgoing.get(packet.messageId as number);
        if (id === undefined) break;
        if (session?.owed.delete(id)) session.received.add(id);
        session?.taken.add(id);
        break;
      }
      case 'pubrel':
        session?.halfOpen.delete(packet.messageId as number);
        break;
    }
    this.version++;
  }

  private toPlant(connection: PlantConnection, packet: Packet): void {
    const session = this.sessions.get(connection.clientId);
    const flight = this.flight(connection);
    switch (packet.cmd) {
      case 'connack':
        if (session) session.present = true;
        break;
      case 'suback':
        this.subscribed(session, flight.asked.get(packet.messageId as number) ?? [], packet);
        break;
      case 'publish': {
        const id = idOf(packet.payload.toString());
        if (id !== null && packet.qos > 0) flight.outgoing.set(packet.messageId as number, id);
        break;
      }
      case 'puback':
      case 'pubrec':
        if ((packet.reasonCode ?? 0) >= REASON_FAILURE_MIN) break;
        this.acknowledge(flight, packet.messageId as number);
        if (packet.cmd === 'pubrec') session?.halfOpen.add(packet.messageId as number);
        break;
      case 'pubcomp':
        session?.free.add(packet.messageId as number);
        break;
    }
    this.version++;
  }

  private connecting({ clientId, version }: PlantConnection, packet: IConnectPacket): void {
    const expiryS = version === 5 ? (packet.properties?.sessionExpiryInterval ?? 0) : packet.clean ? 0 : 1;
    if (packet.clean || expiryS === 0) this.sessions.delete(clientId);
    if (expiryS === 0 || this.sessions.has(clientId)) return;
    this.sessions.set(clientId, {
      present: false,
      filters: new Set(),
      owed: new Set(),
      received: new Set(),
      taken: new Set(),
      halfOpen: new Set(),
      free: new Set(),
    });
  }

  private publishing(connection: PlantConnection, packet: IPublishPacket): void {
    const { topic, qos, retain } = packet;
    const payload = packet.payload.toString();
    const id = idOf(payload);
    if (id === null) {
      assert(retain && payload === '', 'a message has a number, unless it clears a retained one');
    }
    const message: Published = { id: id ?? -1, topic, payload, qos, acknowledged: false };
    const known = id === null ? message : (this.published.get(id) ?? message);
    if (id !== null) this.published.set(id, known);
    let retainedAt = -1;
    if (retain) {
      const history = this.retained.get(topic) ?? { values: [], promised: -1 };
      this.retained.set(topic, history);
      if (history.values.at(-1) !== id) history.values.push(id);
      retainedAt = history.values.length - 1;
    }
    if (qos === 0) return;
    if (qos === 2) this.sessions.get(connection.clientId)?.free.delete(packet.messageId as number);
    const session = [...this.sessions.values()].filter(({ filters }) => [...filters].some((it) => matches(it, topic)));
    this.flight(connection).messages.set(packet.messageId as number, { message: known, session, retainedAt });
  }

  private acknowledge(flight: InFlight, packetId: number): void {
    const taken = flight.messages.get(packetId);
    if (!taken) return;
    flight.messages.delete(packetId);
    const { message, session, retainedAt } = taken;
    if (retainedAt >= 0) {
      const history = this.retained.get(message.topic) as RetainedHistory;
      history.promised = Math.max(history.promised, retainedAt);
    }
    if (message.id < 0 || message.acknowledged) return;
    message.acknowledged = true;
    for (const { owed, taken } of session) if (!taken.has(message.id)) owed.add(message.id);
    if (message.topic.startsWith(BRIDGED)) this.acknowledged.add(message.id);
  }

  private subscribed(session: PromisedSession | undefined, filters: readonly string[], packet: ISubackPacket): void {
    for (const [i, filter] of filters.entries())
      if (Number(packet.granted[i]) === 1 || Number(packet.granted[i]) === 2) session?.filters.add(filter);
  }

  private flight(connection: TappedConnection): InFlight {
    let flight = this.inFlight.get(connection);
    if (!flight) {
      flight = { messages: new Map(), outgoing: new Map(), asked: new Map() };
      this.inFlight.set(connection, flight);
    }
    return flight;
  }
}

function filtersOf(packet: ISubscribePacket): string[] {
  return packet.subscriptions.map(({ topic }) => topic);
}

/** For the filters used here: a topic, or a branch with `/#` at its end. */
function matches(filter: string, topic: string): boolean {
  return filter.endsWith('/#') ? topic.startsWith(filter.slice(0, -1)) : filter === topic;
}
