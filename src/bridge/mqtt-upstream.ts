/**
 * MQTT.js as a bare transport: one client object for one connection, no stores, no reconnection, no queue of its own. The
 * spool is the queue; what the library would keep in memory would be lost in a crash, or sent again one by one.
 */
import { Readable } from 'node:stream';
import { type IClientOptions, type IConnackPacket, type IPublishPacket, MqttClient, type Packet } from 'mqtt';
import { dial, type TlsFiles } from '../lib/dial.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import type { Log } from '../lib/log.js';
import { BATCH_CONTENT_TYPE } from '../wire/batch.js';
import { AnswerGuard } from './answer-guard.js';
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
  /** Set when the payload is a batch in columns, as the MQTT 5 content type. */
  readonly contentType: boolean;
  readonly connectTimeoutMs: number;
  readonly keepaliveMs: number;
  /** What to do when the broker says that nobody is subscribed, which 3.1.1 cannot say. */
  readonly onNoSubscribers: 'hold' | 'accept';
  readonly log: Log;
}

/** MQTT 5 reason codes, §2.4. */
const NO_MATCHING_SUBSCRIBERS = 0x10;
const FAILURE_MIN = 0x80;
const REASONS: Readonly<Record<number, string>> = {
  128: 'unspecified error',
  129: 'malformed packet',
  130: 'protocol error',
  131: 'implementation specific error',
  132: 'this MQTT version is not supported',
  133: 'the client id is not accepted',
  134: 'bad user name or password',
  135: 'not authorised',
  136: 'the server is unavailable',
  137: 'the server is busy',
  138: 'banned',
  139: 'the server is shutting down',
  141: 'keep alive timeout',
  142: 'another client connected with the same client id',
  144: 'the topic name is not accepted',
  147: 'more batches in flight than the server takes',
  149: 'the packet is too large for the server',
  151: 'quota exceeded',
  152: 'administrative action',
  153: 'the payload format is not accepted',
  155: 'QoS 1 is not supported',
  159: 'too many connections',
};
/** CONNACK return codes of 3.1.1, §3.2.2.3. */
const RETURN_CODES: Readonly<Record<number, string>> = {
  1: 'this MQTT version is not supported',
  2: 'the client id is not accepted',
  3: 'the server is unavailable',
  4: 'bad user name or password',
  5: 'not authorised',
};
const UNAVAILABLE = new Set([3, 136, 137, 139]);
/** Topic name invalid, packet too large, payload format invalid: the same batch will fare no better next time. */
const BATCH_REFUSED = new Set([0x90, 0x95, 0x99]);
const NOT_AUTHORIZED = 0x87;

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

export class MqttUpstream implements Upstream {
  private readonly options: MqttUpstreamOptions;

  constructor(options: MqttUpstreamOptions) {
    this.options = options;
  }

  get url(): string {
    return this.options.url;
  }

  async connect(signal: AbortSignal): Promise<UpstreamLink> {
    const link = new MqttLink(this.options);
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
  private readonly client: MqttClient;
  private readonly answers = new Map<number, number>();
  private readonly waiting = new Set<(error: HoldfastError) => void>();
  private why: string | undefined;
  private finish: (why: string) => void = () => {};
  readonly closed: Promise<string>;
  blamed = false;
  forbidden = false;
  limits: UpstreamLimits = { inFlightMax: 0, payloadBytesMax: 0, announced: false };

  constructor(options: MqttUpstreamOptions) {
    this.options = options;
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
    this.client = new MqttClient(() => new AnswerGuard(dial(options.url, options.tls)) as never, settings);
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
    });
    const connected = new Promise<void>((resolve) => client.once('connect', () => resolve()));
    client.on('close', () => this.end(this.why ?? 'the connection was closed'));
    // The library's own timer is cleared by any CONNACK, even one that it then does not understand.
    const watchdog = setTimeout(
      () => this.destroy(`no CONNACK within ${options.connectTimeoutMs} ms`),
      options.connectTimeoutMs,
    );
    client.connect();
    const why = await Promise.race([connected, this.closed]);
    clearTimeout(watchdog);
    if (refused) {
      this.destroy(refused.message);
      throw refused;
    }
    if (why !== undefined) throw new HoldfastError('upstream.lost', why, { values: { url: options.url } });
    this.limits = this.grant();
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

function reason(code: number | undefined): string {
  return code === undefined ? 'no reason given' : (REASONS[code] ?? `reason code ${code}`);
}

function refusal(packet: IConnackPacket, { url, protocolVersion }: MqttUpstreamOptions): HoldfastError | undefined {
  const code = (protocolVersion === 5 ? packet.reasonCode : packet.returnCode) ?? 0;
  if (code === 0) {
    if (packet.properties?.maximumQoS !== 0) return undefined;
    return new HoldfastError('upstream.refused', `${url} grants QoS 0 only, which acknowledges nothing`);
  }
  const text = (protocolVersion === 5 ? REASONS : RETURN_CODES)[code] ?? `code ${code}`;
  const error = UNAVAILABLE.has(code) ? 'upstream.lost' : 'upstream.refused';
  return new HoldfastError(error, `${url} refused the connection: ${text}`, { values: { code } });
}
