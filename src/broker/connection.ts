/**
 * One client connection, MQTT 3.1, 3.1.1 or 5, over any duplex stream. It ends PUBLISH, acknowledgements, PING, keepalive
 * and flow control itself; CONNECT, SUBSCRIBE and UNSUBSCRIBE pass through Aedes and are barriers: nothing after them is
 * read before their answer has left, so that SUBSCRIBE and then PUBLISH keep their order.
 *
 * Whatever a client does wrong ends its connection, with the reason where its version has one, and nothing else.
 */
import type { Duplex } from 'node:stream';
import type { IDisconnectPacket, ISubscribePacket, IUnsubscribePacket, Packet } from 'mqtt-packet';
import { messageOf } from '../lib/errors.js';
import type { Entrance } from './access.js';
import { admitClient } from './admission.js';
import { type AedesCore, ControlChannel, type ControlOwner } from './aedes-core.js';
import { encodeControl, parseControl } from './control-codec.js';
import {
  acceptance,
  cappedExpiry,
  type Handshake,
  isSupported,
  readConnect,
  refusal,
  toAedes,
  VERSION_REFUSAL,
  versionOf,
} from './handshake.js';
import { InboundMessages, type InboundOwner } from './inbound.js';
import type { Intake } from './intake.js';
import { Outbox } from './outbox.js';
import { Output } from './output.js';
import { PACKET, type PacketOwner, PacketReader } from './packet-reader.js';
import { ProtocolError, REASON, type Reason } from './reason.js';
import type { Session } from './session.js';
import type { Sessions } from './sessions.js';
import type { Shared } from './shared.js';
import { Subscribing, type SubscribingOwner } from './subscribing.js';
import { sharedParts } from './topics.js';

/** After the end of our side, for the client to read the reason: a reset at once would swallow it. */
const LINGER_MS = 500;
/**
 * Once its CONNECT is here a client waits for us, for its turn among the logins above all: after a restart all of a plant
 * come at once, and a password may take a quarter of a second. As long as clients themselves wait for the answer.
 */
const LOGIN_TIMEOUT_MS = 30_000;
/** A client that is silent for one and a half times its keepalive is gone [MQTT-3.1.2-22]. */
const KEEPALIVE_GRACE = 1.5;
const PINGRESP = Buffer.from([0xd0, 0]);
const DISCONNECT_WITH_WILL = 4;

export interface ConnectionContext {
  readonly shared: Shared;
  readonly core: AedesCore;
  readonly intake: Intake;
  readonly sessions: Sessions;
  readonly entrance: Entrance;
  readonly onClosed: (connection: Connection) => void;
}

/** The parts of a connection that exist once the client has its session. */
interface Served {
  readonly session: Session;
  readonly present: boolean;
  readonly inbound: InboundMessages;
  readonly subscribing: Subscribing;
}

export class Connection implements ControlOwner, PacketOwner, InboundOwner, SubscribingOwner {
  readonly output: Output;
  version = 0;
  isClosed = false;
  /** Accepted: CONNACK has been written. */
  isReady = false;
  private readonly context: ConnectionContext;
  private readonly socket: Duplex;
  private readonly channel: ControlChannel;
  private readonly reader: PacketReader;
  private readonly openedAt: number;
  /** When it was known who it is; after that it only waits to take over its session. */
  private knownAt: number | undefined;
  private handshake: Handshake | undefined;
  private refused: ProtocolError | undefined;
  /** Set by the session when it takes this connection, which is before the client is served. */
  private session: Session | undefined;
  private served: Served | undefined;
  private saidGoodbye = false;
  private pause: NodeJS.Timeout | undefined;

  constructor(context: ConnectionContext, socket: Duplex) {
    this.context = context;
    this.socket = socket;
    this.output = new Output(socket, context.shared.counters);
    this.reader = new PacketReader(context.shared, this, socket);
    this.openedAt = context.shared.clock.mono();
    this.channel = new ControlChannel(this);
  }

  open(): void {
    for (const event of ['end', 'close', 'error']) this.socket.on(event, () => this.close());
    this.context.core.handle(this.channel);
    this.reader.start();
  }

  /** It is not read at the moment: too much waits to be committed or taken by the client, or it sends too fast. */
  get isChoked(): boolean {
    return this.reader.gate.isShut('backlog', 'clogged', 'rate');
  }

  /** Who it is, once it is ready; null: anonymous. */
  get user(): string | null {
    return this.session?.user ?? null;
  }

  /** To be called every now and then: the deadlines of CONNECT and keepalive. */
  tick(now: number): void {
    if (this.isClosed) return;
    if (!this.isReady) {
      const isLoggingIn = this.handshake !== undefined && this.knownAt === undefined;
      const timeoutMs = isLoggingIn ? LOGIN_TIMEOUT_MS : this.context.shared.limits.connectTimeoutMs;
      if (now - (this.knownAt ?? this.openedAt) > timeoutMs) this.close();
      return;
    }
    const keepaliveMs = (this.handshake?.keepaliveS ?? 0) * 1000 * KEEPALIVE_GRACE;
    // While we do not read, silence is our doing.
    if (this.reader.gate.isShut('answer', 'backlog', 'rate', 'stopped')) this.reader.seenAt = now;
    else if (keepaliveMs > 0 && now - this.reader.seenAt > keepaliveMs)
      this.disconnect(REASON.keepAliveTimeout, 'keep alive timeout');
  }

  /** Reads nothing more; what has been read is still answered. */
  stop(): void {
    this.reader.gate.shut('stopped');
  }

  /** Ends the connection and tells a client of version 5 why. */
  disconnect(reason: Reason, reasonString: string): void {
    if (this.isClosed) return;
    if (this.version === 5 && this.isReady) {
      const { wantsReasons = false, packetBytesMax = 0 } = this.handshake ?? {};
      const bare = encodeControl({ cmd: 'disconnect', reasonCode: reason }, 5);
      const full = encodeControl({ cmd: 'disconnect', reasonCode: reason, properties: { reasonString } }, 5);
      this.output.write(wantsReasons && full.length <= packetBytesMax ? full : bare);
    }
    this.close();
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    if (this.isReady) this.context.shared.counters.countClient(-1);
    clearTimeout(this.pause);
    this.output.end();
    // Drains what still comes, so that the other side's end is seen.
    this.socket.resume();
    const linger = setTimeout(() => this.socket.destroy(), LINGER_MS);
    this.socket.once('close', () => clearTimeout(linger));
    if (this.socket.destroyed) clearTimeout(linger);
    this.channel.destroy();
    if (this.session) this.context.sessions.detach(this, this.session, this.saidGoodbye);
    this.context.onClosed(this);
  }

  /** Its login is over, and it may come in. */
  onKnown(): void {
    this.knownAt = this.context.shared.clock.mono();
  }

  /** The session's way out; the session calls it when it takes this connection. */
  openOutbox(session: Session): Outbox {
    this.session = session;
    const { receiveMaximum, packetBytesMax, topicAliasMax } = this.handshake as Handshake;
    const { socket, output, version } = this;
    const onFailure = (error: unknown): void => this.onNotStored(error);
    const options = { socket, output, version, receiveMaximum, packetBytesMax, topicAliasMax, onFailure };
    return new Outbox(this.context.shared, session, options);
  }

  // What Aedes asks and answers.

  async authenticate(): Promise<boolean> {
    const { shared, intake } = this.context;
    const outcome = await admitClient(this.context, this, this.handshake as Handshake);
    if (outcome instanceof ProtocolError) {
      this.refused = outcome;
      return false;
    }
    const inbound = new InboundMessages(shared, intake, this, outcome.session);
    const subscribing = new Subscribing(shared, intake, this, outcome.session);
    this.served = { ...outcome, inbound, subscribing };
    return !this.isClosed;
  }

  maySubscribe(filter: string): boolean {
    const { session } = this;
    const inner = sharedParts(filter)?.inner ?? filter;
    return session !== undefined && this.context.shared.access.maySubscribe(session.principal, inner);
  }

  onVerdict(packet: Packet): void {
    if (this.isClosed) return;
    const { served } = this;
    if (packet.cmd !== 'connack') served?.subscribing.onVerdict(packet);
    else if (packet.returnCode !== 0 || !served)
      this.refuse(this.refused ?? new ProtocolError(REASON.notAuthorized, 'not authorized'));
    else {
      this.isReady = true;
      this.context.shared.counters.countClient(1);
      this.output.write(acceptance(this.handshake as Handshake, served.present, this.context.shared.limits));
      served.session.outbox?.start();
      this.reader.trust();
      this.reader.resume('answer');
    }
  }

  onChannelClosed(): void {
    this.close();
  }

  // What the parts of this connection need of it.

  pass(packet: Packet): void {
    this.channel.pass(packet);
  }

  answer(packet: Packet): void {
    if (this.isClosed) return;
    this.output.write(encodeControl(packet, this.version));
    this.reader.resume('answer');
  }

  choke(choked: boolean): void {
    if (choked) this.reader.gate.shut('backlog');
    else this.reader.gate.open('backlog');
  }

  slowDown(ms: number): void {
    this.reader.gate.shut('rate');
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.reader.resume('rate'), ms);
  }

  onNotStored(error: unknown): void {
    if (this.isClosed) return;
    const { log, complaints } = this.context.shared;
    const heldBack = complaints.pass('not-stored');
    if (heldBack !== undefined) {
      const fields = { client: this.session?.id, cause: messageOf(error), heldBack };
      log.error(fields, 'A client is disconnected because its message could not be stored');
    }
    this.disconnect(REASON.implementationError, 'not stored');
  }

  onBroken(error: unknown): void {
    const { log } = this.context.shared;
    const ours = error instanceof ProtocolError ? undefined : 'internal error';
    const reason = error instanceof ProtocolError ? error.reason : REASON.unspecified;
    const fields = { client: this.session?.id, reason, cause: messageOf(error) };
    if (ours) log.error(fields, 'A packet broke the broker');
    else log.debug(fields, 'A client broke the protocol');
    if (this.isReady) this.disconnect(reason, ours ?? messageOf(error));
    else this.refuse(new ProtocolError(reason, ours ?? messageOf(error)));
  }

  // What the client sends.

  onPacket(type: number, frame: Buffer, bodyAt: number): void {
    const { served } = this;
    if (type === PACKET.connect) this.onConnect(frame, bodyAt);
    // The first packet has to be a CONNECT; whoever sends another one gets no answer [MQTT-3.1.0-1].
    else if (!served) this.close();
    else if (type === PACKET.publish) served.inbound.receive(frame, bodyAt);
    else if (type >= PACKET.puback && type <= PACKET.pubcomp) this.onAck(served, type, frame, bodyAt);
    else if (type === PACKET.pingreq) this.output.write(PINGRESP);
    else if (type === PACKET.disconnect) this.onDisconnect(served.session, this.parse(frame) as IDisconnectPacket);
    else if (type === PACKET.subscribe || type === PACKET.unsubscribe) {
      const packet = this.parse(frame) as ISubscribePacket | IUnsubscribePacket;
      if (!packet.messageId) throw new ProtocolError(REASON.protocolError, 'packet id 0');
      this.reader.gate.shut('answer');
      if (packet.cmd === 'subscribe') served.subscribing.subscribe(packet);
      else served.subscribing.unsubscribe(packet);
    } else throw new ProtocolError(REASON.protocolError, 'unexpected packet');
  }

  private onConnect(frame: Buffer, bodyAt: number): void {
    const { counters } = this.context.shared;
    counters.connects++;
    if (this.version !== 0) throw new ProtocolError(REASON.protocolError, 'second CONNECT');
    const version = versionOf(frame, bodyAt);
    if (!isSupported(version)) {
      this.output.write(VERSION_REFUSAL);
      this.close();
      return;
    }
    this.version = version;
    this.handshake = readConnect(frame, this.context.shared.limits);
    this.reader.gate.shut('answer');
    this.pass(toAedes(this.handshake));
  }

  private onAck({ session, inbound }: Served, type: number, frame: Buffer, bodyAt: number): void {
    if (frame.length < bodyAt + 2) throw new ProtocolError(REASON.malformed, 'the packet is too short');
    const packetId = frame.readUInt16BE(bodyAt);
    const reason = this.version === 5 ? (frame[bodyAt + 2] ?? 0) : 0;
    if (type === PACKET.pubrel) inbound.release(packetId);
    else if (type === PACKET.puback) session.outbox?.acknowledged(packetId, 1);
    else if (type === PACKET.pubcomp || reason >= REASON.unspecified) session.outbox?.acknowledged(packetId, 2);
    else session.outbox?.released(packetId);
  }

  private onDisconnect(session: Session, { reasonCode, properties }: IDisconnectPacket): void {
    const askedS = properties?.sessionExpiryInterval;
    if (askedS !== undefined) {
      if (session.expiryS === 0 && askedS > 0) throw new ProtocolError(REASON.protocolError, 'session expiry was 0');
      session.expiryS = cappedExpiry(askedS, this.context.shared.limits);
    }
    this.saidGoodbye = reasonCode !== DISCONNECT_WITH_WILL;
    this.close();
  }

  private refuse({ reason, message }: ProtocolError): void {
    const answer = refusal(this.version, reason, message);
    if (answer) this.output.write(answer);
    this.close();
  }

  private parse(frame: Buffer): Packet {
    return parseControl(frame, this.version, this.handshake?.bridgeMode === true);
  }
}
