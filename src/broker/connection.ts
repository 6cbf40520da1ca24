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
import { type AedesCore, ControlChannel, type ControlOwner } from './aedes-core.js';
import { encodeControl, parseControl } from './control-codec.js';
import type { Shared } from './core.js';
import { FrameReader } from './frames.js';
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
import { ACK } from './publish-codec.js';
import { ReadGate } from './read-gate.js';
import { ProtocolError, REASON, type Reason } from './reason.js';
import type { Session } from './session.js';
import type { Sessions } from './sessions.js';
import { Subscribing, type SubscribingOwner } from './subscribing.js';
import { sharedParts } from './topics.js';

/** After the end of our side, for the client to read the reason: a reset at once would swallow it. */
const LINGER_MS = 500;
/** A client that is silent for one and a half times its keepalive is gone [MQTT-3.1.2-22]. */
const KEEPALIVE_GRACE = 1.5;
/** Messages stop at `socketBytesMax`, so far above it are only acknowledgements that the client does not read. */
const CLOG_FACTOR = 4;
const PINGRESP = Buffer.from([0xd0, 0]);
const WITH_WILL = 4;

/** Types of the packets that clients send [MQTT5 2.1.2]. */
const CONNECT = 1;
const PUBLISH = 3;
const PUBACK = 4;
const PUBREC = 5;
const PUBREL = 6;
const PUBCOMP = 7;
const SUBSCRIBE = 8;
const UNSUBSCRIBE = 10;
const PINGREQ = 12;
const DISCONNECT = 14;
/** Flags are fixed for every type but PUBLISH: 0b0010 for these, 0 for all others [MQTT-2.1.3-1]. */
const FLAGGED: ReadonlySet<number> = new Set([PUBREL, SUBSCRIBE, UNSUBSCRIBE]);

export interface ConnectionContext {
  readonly shared: Shared;
  readonly core: AedesCore;
  readonly intake: Intake;
  readonly sessions: Sessions;
  readonly anonymousAllowed: boolean;
  readonly onClosed: (connection: Connection) => void;
}

export class Connection implements ControlOwner, InboundOwner, SubscribingOwner {
  readonly output: Output;
  version = 0;
  isClosed = false;
  private readonly context: ConnectionContext;
  private readonly socket: Duplex;
  private readonly channel: ControlChannel;
  private readonly reader: FrameReader;
  private readonly gate: ReadGate;
  private readonly openedAt: number;
  private seenAt: number;
  private handshake: Handshake | undefined;
  private refused: ProtocolError = new ProtocolError(REASON.badCredentials, 'not authorized');
  private present = false;
  private session: Session | undefined;
  private inbound: InboundMessages | undefined;
  private subscribing: Subscribing | undefined;
  private ready = false;
  private reading = false;
  private saidGoodbye = false;

  constructor(context: ConnectionContext, socket: Duplex) {
    this.context = context;
    this.socket = socket;
    this.output = new Output(socket);
    this.gate = new ReadGate(socket);
    this.reader = new FrameReader(context.shared.limits.connectBytesMax);
    this.openedAt = context.shared.clock.mono();
    this.seenAt = this.openedAt;
    this.channel = new ControlChannel(this);
  }

  open(): void {
    const { socket } = this;
    socket.on('data', (chunk: Buffer) => this.onData(chunk));
    socket.on('end', () => this.close());
    socket.on('close', () => this.close());
    socket.on('error', () => this.close());
    this.context.core.handle(this.channel);
  }

  /** Why it is not read at the moment because of us. */
  get isChoked(): boolean {
    return this.gate.isShut('backlog', 'clogged');
  }

  get isReady(): boolean {
    return this.ready;
  }

  /** To be called every now and then: the deadlines of CONNECT and keepalive. */
  tick(now: number): void {
    if (this.isClosed) return;
    const { connectTimeoutMs } = this.context.shared.limits;
    if (!this.ready) {
      if (now - this.openedAt > connectTimeoutMs) this.close();
      return;
    }
    const keepaliveMs = (this.handshake?.keepaliveS ?? 0) * 1000 * KEEPALIVE_GRACE;
    // While we do not read, silence is our doing.
    if (this.gate.isShut('answer', 'backlog', 'stopped')) this.seenAt = now;
    else if (keepaliveMs > 0 && now - this.seenAt > keepaliveMs)
      this.disconnect(REASON.keepAliveTimeout, 'keep alive timeout');
  }

  /** Reads nothing more; what has been read is still answered. */
  stop(): void {
    this.gate.shut('stopped');
  }

  /** Ends the connection and tells a client of version 5 why. */
  disconnect(reason: Reason, reasonString: string): void {
    if (this.isClosed) return;
    if (this.version === 5 && this.ready) {
      const properties = this.handshake?.wantsReasons ? { reasonString } : {};
      this.output.write(encodeControl({ cmd: 'disconnect', reasonCode: reason, properties }, 5));
    }
    this.close();
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
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
    const { shared, sessions, intake, anonymousAllowed } = this.context;
    const { clientId, username, password, cleanStart, expiryS, will } = this.handshake as Handshake;
    try {
      const principal = await shared.access.authenticate({ clientId, username, password, anonymousAllowed });
      if (!principal) return false;
      if (this.isClosed) return false;
      const plan = { clientId, user: principal.user, cleanStart, expiryS, will };
      const { session, present } = await sessions.attach(this, plan);
      this.present = present;
      this.inbound = new InboundMessages(shared, intake, this, session);
      this.subscribing = new Subscribing(shared, intake, this, session);
      return !this.isClosed;
    } catch (error) {
      this.refused =
        error instanceof ProtocolError ? error : new ProtocolError(REASON.implementationError, messageOf(error));
      return false;
    }
  }

  maySubscribe(filter: string): boolean {
    const { session } = this;
    const inner = sharedParts(filter)?.inner ?? filter;
    return (
      session !== undefined &&
      this.context.shared.access.maySubscribe({ user: session.user, clientId: session.id }, inner)
    );
  }

  onVerdict(packet: Packet): void {
    if (this.isClosed) return;
    if (packet.cmd !== 'connack') {
      this.subscribing?.onVerdict(packet);
      return;
    }
    if (packet.returnCode !== 0) {
      this.refuse(this.refused);
      return;
    }
    this.ready = true;
    this.seenAt = this.context.shared.clock.mono();
    this.reader.bytesMax = this.context.shared.limits.packetBytesMax;
    this.output.write(acceptance(this.handshake as Handshake, this.present, this.context.shared.limits));
    this.session?.outbox?.start();
    this.resume();
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
    this.resume();
  }

  choke(choked: boolean): void {
    if (choked) this.gate.shut('backlog');
    else if (!this.isClosed) this.gate.open('backlog');
  }

  onNotStored(error: unknown): void {
    if (this.isClosed) return;
    const { log, complaints } = this.context.shared;
    const heldBack = complaints.pass('not-stored');
    if (heldBack !== undefined)
      log.error(
        { client: this.session?.id, cause: messageOf(error), heldBack },
        'A client is disconnected because its message could not be stored',
      );
    this.disconnect(REASON.implementationError, 'not stored');
  }

  // What the client sends.

  private onData(chunk: Buffer): void {
    if (this.isClosed) return;
    this.seenAt = this.context.shared.clock.mono();
    this.context.shared.counters.receivedBytes += chunk.length;
    this.reader.push(chunk);
    this.read();
    const { output, socket, gate, isClosed, context } = this;
    const bytesMax = CLOG_FACTOR * context.shared.limits.socketBytesMax;
    if (isClosed || output.waitingBytes <= bytesMax || gate.isShut('clogged')) return;
    gate.shut('clogged');
    socket.once('drain', () => gate.open('clogged'));
  }

  private read(): void {
    if (this.reading) return;
    this.reading = true;
    try {
      while (!this.isClosed && !this.gate.isShut('answer', 'stopped')) {
        const frame = this.reader.next();
        if (!frame) break;
        this.onFrame(frame, this.reader.bodyAt);
      }
    } catch (error) {
      this.fail(error);
    } finally {
      this.reading = false;
    }
  }

  private fail(error: unknown): void {
    if (!(error instanceof ProtocolError)) {
      this.context.shared.log.error({ client: this.session?.id, cause: messageOf(error) }, 'A packet broke the broker');
    }
    const { reason, message } =
      error instanceof ProtocolError ? error : new ProtocolError(REASON.unspecified, 'internal error');
    this.context.shared.log.debug({ client: this.session?.id, reason, cause: message }, 'A client broke the protocol');
    if (this.ready) this.disconnect(reason, message);
    else this.refuse(new ProtocolError(reason, message));
  }

  private onFrame(frame: Buffer, bodyAt: number): void {
    const first = frame[0] as number;
    const type = first >> 4;
    if (this.version === 0 && type !== CONNECT) {
      // [MQTT-3.1.0-1]
      this.close();
      return;
    }
    if (type === PUBLISH) {
      this.inbound?.receive(frame, bodyAt);
      return;
    }
    if ((first & 0x0f) !== (FLAGGED.has(type) ? 2 : 0)) throw new ProtocolError(REASON.malformed, 'reserved flags');
    switch (type) {
      case PUBACK:
      case PUBREC:
      case PUBREL:
      case PUBCOMP:
        this.onAck(type, frame, bodyAt);
        return;
      case PINGREQ:
        this.output.write(PINGRESP);
        return;
      case CONNECT:
        this.onConnect(frame, bodyAt);
        return;
      case SUBSCRIBE:
        this.gate.shut('answer');
        this.subscribing?.subscribe(this.parse(frame) as ISubscribePacket);
        return;
      case UNSUBSCRIBE:
        this.gate.shut('answer');
        this.subscribing?.unsubscribe(this.parse(frame) as IUnsubscribePacket);
        return;
      case DISCONNECT:
        this.onDisconnect(this.parse(frame) as IDisconnectPacket);
        return;
      default:
        throw new ProtocolError(REASON.protocolError, 'unexpected packet');
    }
  }

  private onConnect(frame: Buffer, bodyAt: number): void {
    if (this.version !== 0) throw new ProtocolError(REASON.protocolError, 'second CONNECT');
    const version = versionOf(frame, bodyAt);
    if (!isSupported(version)) {
      this.output.write(VERSION_REFUSAL);
      this.close();
      return;
    }
    this.version = version;
    this.handshake = readConnect(frame, this.context.shared.limits);
    this.gate.shut('answer');
    this.pass(toAedes(this.handshake));
  }

  private onAck(type: number, frame: Buffer, bodyAt: number): void {
    if (frame.length < bodyAt + 2) throw new ProtocolError(REASON.malformed, 'the packet is too short');
    const packetId = frame.readUInt16BE(bodyAt);
    const reason = this.version === 5 ? (frame[bodyAt + 2] ?? 0) : 0;
    const outbox = this.session?.outbox;
    if (type === PUBREL) this.inbound?.release(packetId);
    else if (type === PUBACK) outbox?.acknowledged(packetId, ACK.puback);
    else if (type === PUBCOMP || reason >= REASON.unspecified) outbox?.acknowledged(packetId, ACK.pubcomp);
    else outbox?.released(packetId, ACK.pubrec);
  }

  private onDisconnect({ reasonCode, properties }: IDisconnectPacket): void {
    const askedS = properties?.sessionExpiryInterval;
    const { session } = this;
    if (session && askedS !== undefined) {
      if (session.expiryS === 0 && askedS > 0) throw new ProtocolError(REASON.protocolError, 'session expiry was 0');
      session.expiryS = cappedExpiry(askedS, this.context.shared.limits);
    }
    this.saidGoodbye = reasonCode !== WITH_WILL;
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

  private resume(): void {
    this.gate.open('answer');
    this.read();
  }
}
