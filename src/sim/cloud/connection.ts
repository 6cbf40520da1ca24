import type { Socket } from 'node:net';
import type {
  IConnectPacket,
  IDisconnectPacket,
  IPublishPacket,
  ISubscribePacket,
  IUnsubscribePacket,
  Packet,
} from 'mqtt-packet';
import { granted, refusalOf, refused, secondsOf, termsOf, versionOf } from './handshake.js';
import type { Hub } from './hub.js';
import { Inbound } from './inbound.js';
import { PacketSocket } from './packet-socket.js';
import { REASON, REFUSED } from './reason.js';
import type { Sender, Session } from './session.js';

/** A client that connects has to say so within this time [MQTT 3.1.1 §3.1.4]. */
const CONNECT_TIMEOUT_MS = 10_000;

/** What a connection has once its CONNECT is granted. */
interface Established {
  readonly session: Session;
  readonly inbound: Inbound;
}

/** One client's connection: MQTT 3.1, 3.1.1 and 5 without wills, aliases, shared subscriptions and subscription ids. */
export class Connection implements Sender {
  windowMax = 0;
  private readonly hub: Hub;
  private readonly packets: PacketSocket;
  private established: Established | undefined;
  private silenceMsMax = CONNECT_TIMEOUT_MS;
  private sessionExpirySeconds = 0;

  constructor(socket: Socket, hub: Hub) {
    this.hub = hub;
    this.packets = new PacketSocket(socket, hub.faults.maximumPacketSize ?? hub.packetBytesMax, {
      packet: (packet) => this.handle(packet),
      malformed: () => this.fail(REASON.malformedPacket),
      tooLarge: () => this.fail(REASON.packetTooLarge),
      drained: () => this.established?.session.pump(),
      backedUp: () => this.established?.inbound.backedUp ?? false,
      closed: () => this.leave(),
    });
    if (hub.faults.blackHole) this.packets.mute();
  }

  get ready(): boolean {
    return this.packets.ready;
  }

  send(packet: Packet): boolean {
    return this.packets.send(packet);
  }

  takenOver(): void {
    this.fail(REASON.sessionTakenOver);
  }

  mute(): void {
    this.packets.mute();
  }

  checkKeepalive(nowMono: number): void {
    const silent = nowMono - this.packets.lastHeardMono > this.silenceMsMax;
    if (silent && this.packets.listening) this.fail(REASON.keepAliveTimeout);
  }

  /** Says why, where the version has words for it, and closes. */
  fail(reasonCode: number): void {
    if (reasonCode === REASON.malformedPacket || reasonCode === REASON.protocolError)
      this.hub.counters.protocolErrors++;
    if (this.established && this.packets.version === 5) this.packets.send({ cmd: 'disconnect', reasonCode });
    this.close();
  }

  private close(): void {
    this.leave();
    this.packets.end();
  }

  /** Lets go of the session, which begins to expire. */
  private leave(): void {
    this.established?.inbound.close();
    const session = this.established?.session;
    if (session?.sender !== this) return;
    session.detach(performance.now() + this.sessionExpirySeconds * 1000);
    if (this.sessionExpirySeconds === 0) this.hub.state.drop(session);
  }

  private handle(packet: Packet): void {
    if (!this.established) {
      if (packet.cmd === 'connect') this.connect(packet);
      else this.close();
      return;
    }
    const { session, inbound } = this.established;
    // The id of a packet that is cut short comes out of the parser as -1 [MQTT-2.2.1-3].
    const { messageId = 1 } = packet;
    if (messageId < 1) {
      this.fail(REASON.protocolError);
      return;
    }
    switch (packet.cmd) {
      case 'publish':
        this.publish(inbound, packet);
        break;
      case 'pubrel':
        inbound.release(packet);
        break;
      case 'puback':
      case 'pubcomp':
        session.acknowledged(messageId);
        break;
      case 'pubrec':
        if ((packet.reasonCode ?? 0) >= REFUSED) session.acknowledged(messageId);
        else this.send({ cmd: 'pubrel', messageId, reasonCode: session.received(messageId) });
        break;
      case 'subscribe':
        this.subscribe(session, packet);
        break;
      case 'unsubscribe':
        this.unsubscribe(session, packet);
        break;
      case 'pingreq':
        this.send({ cmd: 'pingresp' });
        break;
      case 'disconnect':
        this.disconnect(packet);
        break;
      default:
        this.fail(REASON.protocolError);
    }
  }

  private connect(packet: IConnectPacket): void {
    const { faults, state, counters } = this.hub;
    this.packets.version = versionOf(packet);
    counters.connects++;
    if (faults.noConnack) {
      this.packets.mute();
      return;
    }
    const terms = termsOf(packet, this.hub);
    const refusal = refusalOf(packet, this.hub);
    const opened = refusal === undefined ? state.open(terms.clientId, terms.cleanStart) : undefined;
    if (!opened) {
      counters.connectsRefused++;
      this.send(refused(terms.version, refusal ?? REASON.serverUnavailable));
      this.close();
      return;
    }
    const { session, present } = opened;
    this.sessionExpirySeconds = terms.sessionExpirySeconds;
    this.silenceMsMax = terms.silenceMsMax;
    this.windowMax = terms.sendWindowMax;
    this.packets.sendBytesMax = terms.sendBytesMax;
    const inbound = new Inbound(this.hub, session, terms.receiveWindowMax, (answer) => {
      this.send(answer);
      this.packets.readOn();
    });
    this.established = { session, inbound };
    this.send(granted(terms, present, this.packets.packetBytesMax));
    session.attach(this);
  }

  private publish(inbound: Inbound, packet: IPublishPacket): void {
    const ending = inbound.publish(packet, this.packets.version);
    if (ending === undefined) return;
    if (ending === 'reset') this.packets.reset();
    else if (ending === 'close') this.close();
    else this.fail(ending.disconnect);
  }

  private subscribe(session: Session, packet: ISubscribePacket): void {
    const { messageId = 0, subscriptions, properties } = packet;
    if (properties?.subscriptionIdentifier !== undefined || subscriptions.length === 0) {
      this.fail(properties?.subscriptionIdentifier ? REASON.subscriptionIdsNotSupported : REASON.protocolError);
      return;
    }
    const results = subscriptions.map((wanted) => this.hub.state.subscribe(session, wanted));
    // 3.1.1 knows one failure code [MQTT-3.9.3-2].
    const codes = results.map(({ code }) => (this.packets.version === 4 ? Math.min(code, REFUSED) : code));
    this.send({ cmd: 'suback', messageId, granted: codes });
    for (const { message, qos } of results.flatMap(({ retained }) => retained))
      if (qos === 0 || session.hasRoom(message)) session.enqueue({ message, qos, retain: true });
  }

  private unsubscribe(session: Session, { messageId = 0, unsubscriptions }: IUnsubscribePacket): void {
    if (unsubscriptions.length === 0) {
      this.fail(REASON.protocolError);
      return;
    }
    const codes = unsubscriptions.map((filter) => this.hub.state.unsubscribe(session, filter));
    this.send({ cmd: 'unsuback', messageId, granted: codes });
  }

  private disconnect({ properties }: IDisconnectPacket): void {
    const expiry = properties?.sessionExpiryInterval;
    // A session that was to end with its connection cannot be prolonged at its end [MQTT 5.0 §3.14.2.2.2].
    if (expiry && this.sessionExpirySeconds === 0) {
      this.fail(REASON.protocolError);
      return;
    }
    if (expiry !== undefined) this.sessionExpirySeconds = secondsOf(expiry);
    this.close();
  }
}
