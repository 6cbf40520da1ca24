import type { IPublishPacket, IPubrelPacket, Packet } from 'mqtt-packet';
import { type Ack, AckLine } from './ack-line.js';
import { forcedAckCode, resetsNow } from './faults.js';
import type { Hub } from './hub.js';
import { messageOf } from './message.js';
import { REASON, REFUSED } from './reason.js';
import type { CloudMessage, Session } from './session.js';
import { isTopicName } from './topics.js';

/** How a connection is to end because of a publish. */
export type Ending = { readonly disconnect: number } | 'close' | 'reset';

/** Acknowledgements held back by faults; a client has no more packet ids than this. */
const ACKS_HELD_MAX = 65_535;

/** What one client publishes, until it has the last acknowledgement for it. */
export class Inbound {
  private readonly hub: Hub;
  private readonly session: Session;
  private readonly windowMax: number;
  private readonly send: (packet: Packet) => void;
  private readonly acks: AckLine;
  private readonly unacked = new Set<number>();

  constructor(hub: Hub, session: Session, windowMax: number, send: (packet: Packet) => void) {
    this.hub = hub;
    this.session = session;
    this.windowMax = windowMax;
    this.send = send;
    this.acks = new AckLine(hub.faults, hub.random, {
      send: (ack) => this.acknowledge(ack),
      swallow: () => hub.counters.acksSwallowed++,
    });
  }

  get backedUp(): boolean {
    return this.acks.length >= ACKS_HELD_MAX;
  }

  /** Undefined when the connection goes on. */
  publish(packet: IPublishPacket, version: 4 | 5): Ending | undefined {
    const { faults, counters } = this.hub;
    const messageId = packet.messageId ?? 0;
    counters.publishes++;
    counters.publishedBytes += packet.payload.length;
    if (packet.dup) counters.duplicates++;
    const message = this.check(packet);
    if (typeof message === 'number') return { disconnect: message };
    // A repeat of a QoS 2 publish that is not released yet is the same message [MQTT-4.3.3-10].
    const repeated = packet.qos === 2 && this.session.incoming.has(messageId);
    const reasonCode = repeated ? REASON.success : this.accept(packet, message);
    if (resetsNow(faults)) return 'reset';
    if (packet.qos === 0) return undefined;
    if (reasonCode >= REFUSED && version === 4) return 'close';
    if (packet.qos === 2 && reasonCode < REFUSED) this.session.incoming.add(messageId);
    this.acks.add({ cmd: packet.qos === 1 ? 'puback' : 'pubrec', messageId, reasonCode });
    return undefined;
  }

  release({ messageId = 0 }: IPubrelPacket): void {
    const known = this.session.incoming.delete(messageId);
    this.unacked.delete(messageId);
    this.send({ cmd: 'pubcomp', messageId, reasonCode: known ? REASON.success : REASON.packetIdNotFound });
  }

  close(): void {
    this.acks.close();
  }

  /** The message, or the reason for which the connection has to end. */
  private check(packet: IPublishPacket): CloudMessage | number {
    const { counters } = this.hub;
    if (packet.properties?.topicAlias !== undefined) return REASON.topicAliasInvalid;
    if (!isTopicName(packet.topic)) return REASON.topicNameInvalid;
    const message = messageOf(packet);
    if (!message) return REASON.protocolError;
    if (packet.qos === 0 || packet.messageId === undefined) return message;
    this.unacked.add(packet.messageId);
    counters.unackedMax = Math.max(counters.unackedMax, this.unacked.size);
    return this.unacked.size > this.windowMax ? REASON.receiveMaximumExceeded : message;
  }

  private accept(packet: IPublishPacket, message: CloudMessage): number {
    const forced = (packet.qos > 0 ? forcedAckCode(this.hub.faults) : undefined) ?? REASON.success;
    const code = forced >= REFUSED ? forced : this.hub.state.route(packet, message, this.session);
    if (code >= REFUSED) {
      this.hub.counters.publishesRefused++;
      return code;
    }
    this.hub.accepted(message, packet, this.session);
    return forced === REASON.success ? code : forced;
  }

  private acknowledge(ack: Ack): void {
    this.hub.counters.acks++;
    if (ack.cmd === 'puback' || ack.reasonCode >= REFUSED) this.unacked.delete(ack.messageId);
    this.send(ack);
  }
}
