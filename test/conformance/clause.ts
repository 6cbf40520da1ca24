/**
 * Conformance by normative clause: what the two standards demand of a server and a client can see. Every clause is tried on
 * a raw socket against Holdfast, and as control against a real Mosquitto: a test that no broker passes tests nothing.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { RawClient } from '../helpers/broker.js';

export type Version = 4 | 5;

export interface Clause {
  /** Numbers of the clauses in MQTT 3.1.1 and in MQTT 5, without `MQTT-`; absent where the version has none. */
  readonly v4?: string;
  readonly v5?: string;
  readonly what: string;
  /** Why Mosquitto 2.0 does not do it. */
  readonly mosquitto?: string;
  readonly run: (bench: Bench) => Promise<void>;
}

export const SESSION_S = 60;

/** One clause being tried: names that no other has, and what every conversation needs. */
export class Bench {
  readonly version: Version;
  readonly name: string;
  private readonly t: TestContext;
  private readonly port: number;

  constructor(t: TestContext, port: number, version: Version, name: string) {
    this.t = t;
    this.port = port;
    this.version = version;
    this.name = name;
  }

  /** A connection that has said nothing. */
  open(): Promise<RawClient> {
    return RawClient.open(this.t, this.port, this.version);
  }

  /** A connection that has sent CONNECT; the answer is not looked at. */
  async dial(who: string, options: object = {}): Promise<RawClient> {
    const raw = await this.open();
    const { version: protocolVersion } = this;
    const clientId = `${this.name}-${who}`;
    raw.send({ cmd: 'connect', protocolId: 'MQTT', protocolVersion, clientId, clean: true, keepalive: 0, ...options });
    return raw;
  }

  async connect(who: string, options: object = {}): Promise<RawClient> {
    const raw = await this.dial(who, options);
    assert.equal(codeOf(await raw.next('connack')), 0);
    return raw;
  }

  /** What a CONNECT needs whose session is to outlive the connection. */
  kept(more: object = {}): object {
    const properties = this.version === 5 ? { sessionExpiryInterval: SESSION_S } : undefined;
    return { clean: false, properties, ...more };
  }

  topic(rest = 'a'): string {
    return `${this.name}/${rest}`;
  }

  /** Subscribes to filters of this bench, and returns the codes of the answer. */
  async subscribe(raw: RawClient, ...filters: (string | object)[]): Promise<number[]> {
    const subscriptions = filters.map((filter) => (typeof filter === 'string' ? { topic: filter, qos: 2 } : filter));
    raw.send({ cmd: 'subscribe', messageId: 9_999, subscriptions });
    return (await raw.next('suback')).granted;
  }

  /** Publishes with QoS 1 and waits for the acknowledgement. */
  async publish(raw: RawClient, topic: string, payload: string, more: object = {}): Promise<void> {
    raw.publish(topic, payload, 1, 9_998, more);
    await raw.next('puback');
  }

  /** The same with QoS 2. */
  async publishSurely(raw: RawClient, topic: string, payload: string, messageId: number): Promise<void> {
    raw.publish(topic, payload, 2, messageId);
    await raw.next('pubrec');
    raw.send({ cmd: 'pubrel', messageId, reasonCode: 0 });
    await raw.next('pubcomp');
  }

  /** What `subscriber` gets besides a last message, which is published now and to which it subscribes. */
  async rest(subscriber: RawClient): Promise<string[]> {
    const fence = `fence/${this.name}`;
    await this.subscribe(subscriber, { topic: fence, qos: 0 });
    const publisher = await this.connect('fence');
    await this.publish(publisher, fence, 'fence');
    const texts: string[] = [];
    for (;;) {
      const packet = await subscriber.next('publish');
      if (packet.topic === fence) return texts;
      texts.push(String(packet.payload));
    }
  }
}

/** Of CONNACK, whatever the version calls it. */
export function codeOf(packet: { returnCode?: number; reasonCode?: number }): number {
  return packet.returnCode ?? packet.reasonCode ?? 0;
}

export function hex(text: string): Buffer {
  return Buffer.from(text.replaceAll(' ', ''), 'hex');
}

/** A packet with any first byte and body; bodies are short. */
export function packetOf(first: number, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from([first, body.length]), body]);
}

export function stringOf(text: string | Buffer): Buffer {
  const bytes = Buffer.from(text as string);
  return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 255]), bytes]);
}

/** A CONNECT byte by byte: of a clean session without anything else, where nothing else is said. */
export function connectOf(
  version: Version,
  id: string,
  options: { name?: string; level?: number; flags?: number; rest?: Buffer } = {},
): Buffer {
  const { name = 'MQTT', level = version, flags = 2, rest = Buffer.alloc(0) } = options;
  const head = [stringOf(name), Buffer.from([level, flags, 0, 0])];
  const properties = level === 5 ? [Buffer.from([0])] : [];
  return packetOf(0x10, Buffer.concat([...head, ...properties, stringOf(id), rest]));
}
