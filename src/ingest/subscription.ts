import { type IPublishPacket, MqttClient, type Packet } from 'mqtt';
import { generate } from 'mqtt-packet';
import { dial } from '../lib/dial.js';
import { HoldfastError, messageOf } from '../lib/errors.js';
import {
  CONNECT_TIMEOUT_MS,
  clientOptions,
  RECEIVE_MAXIMUM,
  type SubscriptionOptions,
} from './subscription-options.js';

/** The consumer's side of one message: resolves when it is durable, rejects when it is not and must come again. */
export type Deliver = (topic: string, payload: Uint8Array) => Promise<void>;

/** Above this the socket is not read until something has been committed: the bound that MQTT 3.1.1 cannot announce. */
const WAITING_BYTES_MAX = 64 * 1024 * 1024;
/** How long a farewell may take before the socket is cut. */
const FAREWELL_MS = 1000;

/**
 * One connection and one life of an MQTT.js client, which serves as a bare transport: no reconnect, no queue, no
 * acknowledgement of its own. A message's PUBACK is written here, and only after `deliver` has resolved, in the order of
 * arrival [MQTT-4.6.0-2]. Reading goes on meanwhile, so a slow commit delays neither keepalive nor the next message, and
 * messages that come together are committed together. The first rejection ends the connection; the broker then sends
 * everything that is unacknowledged again.
 */
export class Subscription {
  /** Resolves with the reason when the connection has ended, for whatever cause. */
  readonly closed: Promise<string>;
  /** The broker still had the session, with what was published meanwhile. */
  sessionPresent = false;
  private readonly client: MqttClient;
  private readonly options: SubscriptionOptions;
  private readonly deliver: Deliver;
  private readonly waitingMax: number;
  /** Settled when everything so far has been acknowledged, or can no longer be. */
  private acknowledged: Promise<unknown> = Promise.resolve();
  private waiting = 0;
  private waitingBytes = 0;
  private held: (() => void)[] = [];
  private idle: (() => void)[] = [];
  private readonly publishing = new Set<(why: string) => void>();
  private leaving = false;
  private reason: string | undefined;

  private constructor(options: SubscriptionOptions, deliver: Deliver) {
    this.options = options;
    this.deliver = deliver;
    this.waitingMax = options.receiveMaximum ?? RECEIVE_MAXIMUM;
    this.client = new MqttClient(() => dial(options.url, options.tls) as never, clientOptions(options));
    this.closed = new Promise((resolve) => {
      this.client.on('close', () => {
        this.reason ??= 'the broker closed the connection';
        for (const release of this.held.splice(0)) release();
        // The library keeps quiet about what was not acknowledged.
        for (const lost of this.publishing) lost(this.reason);
        this.publishing.clear();
        this.client.end(true);
        resolve(this.reason);
      });
    });
  }

  /** Connected and subscribed with QoS 1. Throws `upstream.lost` or `upstream.refused`. */
  static async open(options: SubscriptionOptions, deliver: Deliver, signal: AbortSignal): Promise<Subscription> {
    const subscription = new Subscription(options, deliver);
    const timeoutMs = options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS;
    const timer = setTimeout(() => subscription.cut(`no answer within ${timeoutMs} ms`), timeoutMs);
    const abort = () => subscription.cut('stopping');
    signal.addEventListener('abort', abort, { once: true });
    try {
      await subscription.start();
      return subscription;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    }
  }

  /** Takes no more messages, waits up to `budgetMs` for those it has, and says goodbye; the session stays. */
  async close(budgetMs: number): Promise<void> {
    this.leaving = true;
    const timer = setTimeout(() => this.cut('closing took too long'), budgetMs);
    if (this.waiting > 0) await Promise.race([new Promise<void>((resolve) => this.idle.push(resolve)), this.closed]);
    clearTimeout(timer);
    this.reason ??= 'closed';
    const farewell = setTimeout(() => this.cut('closing took too long'), FAREWELL_MS);
    if (this.client.connected) this.client.end(false);
    else this.cut('closed');
    await this.closed;
    clearTimeout(farewell);
  }

  /** With QoS 1, while the connection lasts; resolves when the broker has it. Rejects with `upstream.lost`. */
  publish(topic: string, payload: Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      const lost = (why: string) => reject(new HoldfastError('upstream.lost', why));
      if (this.reason !== undefined || !this.client.connected) return lost('not connected');
      this.publishing.add(lost);
      this.client.publish(topic, payload, { qos: 1 }, (error) => {
        this.publishing.delete(lost);
        if (error) lost(messageOf(error));
        else resolve();
      });
    });
  }

  private async start(): Promise<void> {
    const { client } = this;
    client.on('error', (error) => {
      this.reason ??= messageOf(error);
      this.cut(this.reason);
    });
    client.on('disconnect', (packet) => {
      this.reason ??= `the broker disconnected with reason ${packet.reasonCode}`;
    });
    client.on('packetreceive', (packet) => this.defuse(packet));
    client.handleMessage = (packet, done) => this.take(packet, done);
    const connected = new Promise<void>((resolve) => {
      client.on('connect', (packet) => {
        this.sessionPresent = packet.sessionPresent;
        resolve();
      });
    });
    client.connect();
    await this.orLost(connected);
    await this.orLost(this.subscribe());
  }

  private subscribe(): Promise<void> {
    // Always, also into a session that is there: it costs nothing, and the configured topics may have changed.
    const topics = [...this.options.topics];
    return new Promise((resolve, reject) => {
      this.client.subscribe(topics, { qos: 1 }, (error, granted = []) => {
        const refused = topics.filter((topic) => error || granted.find((one) => one.topic === topic)?.qos !== 1);
        if (refused.length === 0) return resolve();
        this.cut('subscription refused');
        reject(
          new HoldfastError('upstream.refused', `The broker did not grant QoS 1 on ${refused.join(', ')}`, {
            values: { topics: refused },
            cause: error ?? undefined,
            hint: 'Allow this client to subscribe to these topics with QoS 1.',
          }),
        );
      });
    });
  }

  private orLost<T>(promise: Promise<T>): Promise<T> {
    const lost = this.closed.then((reason) => {
      throw new HoldfastError('upstream.lost', `No connection to ${this.options.url}: ${reason}`);
    });
    return Promise.race([promise, lost]);
  }

  /** `done` lets MQTT.js read on; its argument keeps it from writing the PUBACK itself. */
  private take(packet: IPublishPacket, done: (error?: Error) => void): void {
    const readOn = () => done(NO_PUBACK);
    if (this.reason !== undefined || this.leaving) {
      readOn();
      return;
    }
    const { length } = packet.payload;
    this.waiting++;
    this.waitingBytes += length;
    if (this.hasRoom()) readOn();
    else this.held.push(readOn);
    const delivered = this.deliver(packet.topic, Buffer.from(packet.payload));
    // Side by side they may become durable in another order than they came in.
    this.acknowledged = Promise.all([delivered, this.acknowledged])
      .then(
        () => this.acknowledge(packet),
        (error) => this.cut(messageOf(error)),
      )
      .finally(() => {
        this.waiting--;
        this.waitingBytes -= length;
        if (this.hasRoom()) for (const release of this.held.splice(0)) release();
        if (this.waiting === 0) for (const wake of this.idle.splice(0)) wake();
      });
  }

  /** A broker that keeps to our receive maximum is never held up, so its PINGRESP is always read in time. */
  private hasRoom(): boolean {
    return this.waiting <= this.waitingMax && this.waitingBytes <= WAITING_BYTES_MAX;
  }

  private acknowledge({ qos, messageId }: IPublishPacket): void {
    if (qos === 0 || messageId === undefined || this.reason !== undefined) return;
    this.client.stream.write(generate({ cmd: 'puback', messageId, reasonCode: 0 }, { protocolVersion: this.version }));
  }

  /**
   * We publish and subscribe with QoS 1 only. MQTT.js answers some packets that break this with an exception outside
   * of any call of ours; turned into what it passes over, they end the connection instead of the process.
   */
  private defuse(packet: Packet): void {
    if (packet.cmd === 'publish' && (packet.qos === 2 || (packet.qos === 1 && !((packet.messageId ?? 0) > 0)))) {
      this.cut('the broker broke the protocol: a PUBLISH that cannot be acknowledged');
      packet.qos = 0;
    } else if (packet.cmd === 'pubrel' || packet.cmd === 'pubrec') {
      this.cut(`the broker broke the protocol: unexpected ${packet.cmd.toUpperCase()}`);
      (packet as { cmd: string }).cmd = 'pingreq';
    }
  }

  private cut(reason: string): void {
    this.reason ??= reason;
    this.client.end(true);
    // `end` does nothing when a farewell is under way already.
    this.client.stream?.destroy();
  }

  private get version(): 4 | 5 {
    return this.options.protocolVersion ?? 5;
  }
}

const NO_PUBACK = new Error('acknowledged later');
