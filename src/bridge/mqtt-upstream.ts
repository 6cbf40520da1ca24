/**
 * MQTT.js as a bare transport: one client object for one connection, no stores, no reconnection, no queue of its own. The
 * spool is the queue; what the library would keep in memory would be lost in a crash, or sent again one by one.
 */
import { Readable } from 'node:stream';
import { type IClientOptions, type IPublishPacket, MqttClient, type Packet } from 'mqtt';
import { generate } from 'mqtt-packet';
import { dial, type TlsFiles } from '../lib/dial.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import type { Log } from '../lib/log.js';
import { BATCH_CONTENT_TYPE } from '../wire/batch.js';
import { AnswerGuard } from './answer-guard.js';
import type { AckedTransport, OnAck } from './confirmed-upstream.js';
import {
  BATCH_REFUSED,
  FAILURE_MIN,
  NO_MATCHING_SUBSCRIBERS,
  NOT_AUTHORIZED,
  reason,
  refusal,
} from './mqtt-reasons.js';
import type { BatchAbout, Upstream, UpstreamLimits, UpstreamLink, Verdict } from './upstream.js';

export interface MqttUpstreamOptions {
  readonly url: string;
  readonly protocolVersion: 4 | 5;
  readonly clientId: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly tls?: TlsFiles | undefined;
  readonly topic: string;
  readonly gateway: string;
  readonly epoch: string;
  /** Where the consumer's acknowledgements come; absent: nothing is subscribed to. */
  readonly ackTopic?: string | undefined;
  /** Set when the payload is a batch in columns, as the MQTT 5 content type. */
  readonly contentType: boolean;
  readonly connectTimeoutMs: number;
  readonly keepaliveMs: number;
  /** What to do when the broker says that nobody is subscribed, which 3.1.1 cannot say. */
  readonly onNoSubscribers: 'hold' | 'accept';
  readonly log: Log;
}

/** Without a word from the server about sizes; MQTT's own limit. */
const PACKET_BYTES_MAX = 268_435_455;
/** Fixed header, topic length, packet id, property length and the properties that go with a batch. */
const OVERHEAD_BYTES = 512;
/** How long an orderly DISCONNECT may take to leave. */
const END_MS = 500;

const nullStore = {
  put: (_packet: unknown, done?: () => void) => done?.(),
  del: (packet: unknown, done?: (error: null, packet: unknown) => void) => done?.(null, packet),
  get: (_packet: unknown, done?: (error: Error) => void) => done?.(new Error('nothing is stored')),
  createStream: () => Readable.from([], { objectMode: true }),
  close: (done?: () => void) => done?.(),
} as unknown as NonNullable<IClientOptions['outgoingStore']>;

export class MqttUpstream implements Upstream, AckedTransport {
  private readonly options: MqttUpstreamOptions;

  constructor(options: MqttUpstreamOptions) {
    this.options = options;
  }

  get url(): string {
    return this.options.url;
  }

  async connect(signal: AbortSignal, onAck: OnAck = () => {}): Promise<UpstreamLink> {
    const link = new MqttLink(this.options, onAck);
    const abort = () => link.destroy('the gateway is stopping');
    signal.addEventListener('abort', abort, { once: true });
    try {
      await link.open();
      return link;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }
}

class MqttLink implements UpstreamLink {
  private readonly options: MqttUpstreamOptions;
  private readonly onAck: OnAck;
  private readonly client: MqttClient;
  private readonly answers = new Map<number, number>();
  private readonly waiting = new Set<(error: HoldfastError) => void>();
  private why: string | undefined;
  private finish: (why: string) => void = () => {};
  readonly closed: Promise<string>;
  blamed = false;
  forbidden = false;
  limits: UpstreamLimits = { inFlightMax: 0, payloadBytesMax: 0, announced: false };

  constructor(options: MqttUpstreamOptions, onAck: OnAck) {
    this.options = options;
    this.onAck = onAck;
    this.closed = new Promise((resolve) => {
      this.finish = resolve;
    });
    const { protocolVersion, clientId, username, password, connectTimeoutMs, keepaliveMs } = options;
    const settings: IClientOptions = {
      protocolVersion,
      clientId,
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
      clean: true,
      keepalive: Math.max(1, Math.round(keepaliveMs / 1000)),
      connectTimeout: connectTimeoutMs,
      reconnectPeriod: 0,
      resubscribe: false,
      queueQoSZero: false,
      manualConnect: true,
      incomingStore: nullStore,
      outgoingStore: nullStore,
    };
    this.client = new MqttClient(
      () => new AnswerGuard(dial(options.url, options.tls), options.ackTopic !== undefined) as never,
      settings,
    );
  }

  /** Throws `upstream.refused` when the peer says no, `upstream.lost` when there is none or it says nothing. */
  async open(): Promise<void> {
    const { client, options } = this;
    let refused: HoldfastError | undefined;
    client.on('error', (error) => {
      this.why ??= messageOf(error);
    });
    client.on('packetreceive', (packet: Packet) => {
      if (packet.cmd === 'puback') this.answers.set(packet.messageId as number, packet.reasonCode ?? 0);
      if (packet.cmd === 'disconnect') {
        this.why = `the server disconnected: ${reason(packet.reasonCode)}`;
        this.blamed = BATCH_REFUSED.has(packet.reasonCode ?? 0);
        this.forbidden = packet.reasonCode === NOT_AUTHORIZED;
      }
      if (packet.cmd === 'connack') refused = refusal(packet, options);
      if (packet.cmd === 'publish') this.take(packet);
    });
    const connected = new Promise<void>((resolve) => client.once('connect', () => resolve()));
    client.on('close', () => this.end(this.why ?? 'the connection was closed'));
    // The library's own timer is cleared by any CONNACK, even one that it then does not understand.
    const watchdog = setTimeout(
      () => this.destroy(`not connected within ${options.connectTimeoutMs} ms`),
      options.connectTimeoutMs,
    );
    client.connect();
    let why: string | undefined;
    try {
      why = await Promise.race([connected.then(() => this.subscribe()).then(() => undefined), this.closed]);
    } catch (error) {
      this.destroy(messageOf(error));
      throw error;
    } finally {
      clearTimeout(watchdog);
    }
    if (refused) {
      this.destroy(refused.message);
      throw refused;
    }
    if (why !== undefined) throw new HoldfastError('upstream.lost', why, { values: { url: options.url } });
    this.limits = this.grant();
  }

  /** Before anything is sent, so that no answer is missed. Rejects with `upstream.refused`. */
  private subscribe(): Promise<void> {
    const { ackTopic, url } = this.options;
    if (ackTopic === undefined) return Promise.resolve();
    return new Promise((resolve, reject) => {
      // Handling 2: what the server has kept of an earlier time is not wanted [MQTT5 3.8.3.1].
      this.client.subscribe(ackTopic, { qos: 1, rh: 2 }, (error, granted = []) => {
        if (!error && granted[0]?.qos !== undefined && granted[0].qos <= 1) return resolve();
        const why = `${url} does not let this gateway subscribe to ${ackTopic}, where acknowledgements come`;
        const refused = new HoldfastError('upstream.refused', why, { cause: error ?? undefined });
        reject(this.why === undefined ? refused : new HoldfastError('upstream.lost', this.why));
      });
    });
  }

  /**
   * The library would answer some packets that break the protocol with an exception outside of any call; so it sees none
   * of them, and what is acknowledged is acknowledged here [MQTT-4.3.2-4].
   */
  private take(packet: IPublishPacket): void {
    const { topic, payload, qos, messageId = 0, retain } = packet;
    (packet as { cmd: string }).cmd = 'pingreq';
    if (qos === 2 || (qos === 1 && !(messageId > 0)) || topic !== this.options.ackTopic) {
      this.destroy('the server broke the protocol: a message that was not subscribed to');
      return;
    }
    if (qos === 1) {
      const { protocolVersion } = this.options;
      this.client.stream.write(generate({ cmd: 'puback', messageId, reasonCode: 0 }, { protocolVersion }));
    }
    this.onAck(Buffer.from(payload), retain);
  }

  /**
   * What the server granted always wins where it is smaller [MQTT-3.3.4-9], [MQTT-3.2.2-15]. A server of MQTT 5 that names
   * no packet size has no limit beyond the protocol's [MQTT5 3.2.2.3.6]; one of 3.1.1 cannot name one.
   */
  private grant(): UpstreamLimits {
    const { receiveMaximum = 65_535, maximumPacketSize = PACKET_BYTES_MAX } = this.client.serverProperties ?? {};
    const topicBytes = Buffer.byteLength(this.options.topic);
    return {
      inFlightMax: receiveMaximum,
      payloadBytesMax: maximumPacketSize - topicBytes - OVERHEAD_BYTES,
      announced: this.options.protocolVersion === 5,
    };
  }

  send(payload: Uint8Array, about: BatchAbout): Promise<Verdict> {
    return new Promise((resolve, reject) => {
      if (this.why !== undefined || !this.client.connected) {
        reject(new HoldfastError('upstream.lost', this.why ?? 'the link is down'));
        return;
      }
      this.waiting.add(reject);
      const settle = (act: () => void) => {
        if (this.waiting.delete(reject)) act();
      };
      const message = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
      try {
        this.client.publish(this.options.topic, message, { qos: 1, ...this.properties(about) }, (error, packet) => {
          if (!error) return settle(() => resolve(this.verdict((packet as IPublishPacket | undefined)?.messageId)));
          const code = (error as { code?: unknown }).code;
          if (typeof code === 'number' && code >= FAILURE_MIN) {
            const kind = BATCH_REFUSED.has(code) ? 'refused' : 'held';
            return settle(() => resolve({ kind, cause: `the server refused the batch: ${reason(code)}` }));
          }
          settle(() => reject(new HoldfastError('upstream.lost', messageOf(error))));
        });
      } catch (error) {
        settle(() => reject(new HoldfastError('upstream.lost', messageOf(error))));
      }
    });
  }

  async close(): Promise<void> {
    const timer = setTimeout(() => this.destroy('closed'), END_MS);
    this.why ??= 'closed';
    this.client.end(false, {}, () => this.end('closed'));
    await this.closed;
    clearTimeout(timer);
  }

  destroy(why: string): void {
    this.why ??= why;
    this.client.stream?.destroy();
    this.end(this.why);
  }

  private end(why: string): void {
    this.why ??= why;
    this.finish(this.why);
    const error = new HoldfastError('upstream.lost', this.why);
    for (const reject of this.waiting) reject(error);
    this.waiting.clear();
    this.answers.clear();
    this.client.end(true);
  }

  /** The library reports "nobody is subscribed" as plain success; only the packet itself says so. */
  private verdict(messageId: number | undefined): Verdict {
    const code = messageId === undefined ? 0 : (this.answers.get(messageId) ?? 0);
    if (messageId !== undefined) this.answers.delete(messageId);
    if (code !== NO_MATCHING_SUBSCRIBERS || this.options.onNoSubscribers === 'accept') return { kind: 'taken' };
    return { kind: 'held', cause: `nobody is subscribed to ${this.options.topic}, so the server would drop the batch` };
  }

  private properties({ first, last }: BatchAbout): { properties?: object } {
    if (this.options.protocolVersion !== 5) return {};
    const { gateway, epoch, contentType } = this.options;
    const userProperties = { gw: gateway, ep: epoch, f: String(first), l: String(last) };
    return { properties: { ...(contentType ? { contentType: BATCH_CONTENT_TYPE } : {}), userProperties } };
  }
}
