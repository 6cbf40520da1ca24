import type { Buffer } from 'node:buffer';
import type { IPublishPacket } from 'mqtt-packet';
import type { Qos } from '../../model/message.js';
import { applyFaults } from '../faults.js';
import { Listener } from '../listener.js';
import { randomFrom } from '../random.js';
import { Connection } from './connection.js';
import { type CloudFaults, cloudFaults, NO_FAULTS } from './faults.js';
import { type ConnectionCounters, type Hub, noConnectionsYet } from './hub.js';
import { REASON } from './reason.js';
import type { SessionCounters } from './session.js';
import { CloudState } from './state.js';

/** A publish that the broker has taken, as `onPublish` gets it. */
export interface AcceptedPublish {
  readonly clientId: string;
  readonly topic: string;
  readonly payload: Buffer;
  readonly qos: Qos;
  readonly retain: boolean;
  readonly dup: boolean;
  readonly properties: IPublishPacket['properties'];
}

export interface FaultBrokerOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 1884; 0 takes a free one. */
  readonly port?: number;
  /** Sessions and retained messages of an earlier broker, to go on with. */
  readonly state?: CloudState;
  readonly faults?: Partial<CloudFaults>;
  /** For `ackOrder: 'random'`. Default 1. */
  readonly seed?: number;
  /** Called for every publish that is taken, before it is acknowledged; not for refused ones. */
  readonly onPublish?: (publish: AcceptedPublish) => void;
}

export interface CloudStats extends ConnectionCounters, SessionCounters {
  readonly connections: number;
  readonly sessions: number;
  /** Messages that wait for their subscribers or are not acknowledged by them. */
  readonly queued: number;
}

export const CLOUD_PORT = 1884;
/** What EMQX takes by default; the hubs in `config/` take less. */
const PACKET_BYTES_MAX = 1024 * 1024;
/** Unacknowledged messages to a client that names no Receive Maximum. */
const OUT_WINDOW_MAX = 1000;
const CONNECTIONS_MAX = 1000;
/** How exact keepalive and session expiry are. */
const SWEEP_EVERY_MS = 250;

/**
 * An MQTT 3.1.1 and 5 broker that stands in for a cloud hub and can be made to fail in the ways hubs and networks do. What
 * it has acknowledged it keeps, in memory, until the subscribers' sessions have it: with room in their queues or not at all.
 */
export class FaultBroker {
  readonly state: CloudState;
  private readonly hub: Hub;
  private readonly connections = new Set<Connection>();
  private listener!: Listener;
  private sweep: NodeJS.Timeout | undefined;

  private constructor(options: FaultBrokerOptions) {
    this.state = options.state ?? new CloudState();
    const faults: CloudFaults = { ...NO_FAULTS };
    applyFaults(cloudFaults, faults, options.faults ?? {});
    this.hub = {
      faults,
      state: this.state,
      counters: noConnectionsYet(),
      packetBytesMax: PACKET_BYTES_MAX,
      outWindowMax: OUT_WINDOW_MAX,
      random: randomFrom(options.seed ?? 1),
      accepted({ topic, payload, properties }, { qos, retain, dup }, from) {
        options.onPublish?.({ clientId: from.clientId, topic, payload, qos, retain, dup, properties });
      },
    };
  }

  /** @throws HoldfastError `listen.failed`, or `usage.invalid` for wrong faults */
  static async open(options: FaultBrokerOptions = {}): Promise<FaultBroker> {
    const broker = new FaultBroker(options);
    const { host = '127.0.0.1', port = CLOUD_PORT } = options;
    broker.listener = await Listener.open({ host, port, connectionsMax: CONNECTIONS_MAX }, (socket) => {
      const connection = new Connection(socket, broker.hub);
      broker.connections.add(connection);
      socket.on('close', () => broker.connections.delete(connection));
    });
    broker.sweep = setInterval(() => broker.sweepOnce(), SWEEP_EVERY_MS).unref();
    await broker.set({});
    return broker;
  }

  get host(): string {
    return this.listener.host;
  }

  get port(): number {
    return this.listener.port;
  }

  /** Switches faults; resolves with all of them when they are in force. @throws HoldfastError `usage.invalid` */
  async set(patch: Partial<CloudFaults>): Promise<CloudFaults> {
    const { faults } = this.hub;
    applyFaults(cloudFaults, faults, patch);
    if (faults.blackHole) for (const connection of this.connections) connection.mute();
    const present = this.listener.setPresent(!faults.absent);
    if (faults.absent) this.listener.resetAll();
    await present;
    return { ...faults };
  }

  /** Resets every open connection. */
  reset(): void {
    this.listener.resetAll();
  }

  /** Sends every client away: with DISCONNECT and this reason code in MQTT 5, by a close in 3.1.1. */
  disconnectAll(reasonCode: number = REASON.serverShuttingDown): void {
    for (const connection of this.connections) connection.fail(reasonCode);
  }

  stats(): CloudStats {
    return {
      connections: this.connections.size,
      sessions: this.state.sessions.size,
      queued: this.state.queued,
      ...this.hub.counters,
      ...this.state.counters,
    };
  }

  /** Ends as a server that shuts down in order. Persistent sessions stay in `state`. */
  close(): Promise<void> {
    clearInterval(this.sweep);
    this.disconnectAll();
    return this.listener.close();
  }

  private sweepOnce(): void {
    const now = performance.now();
    for (const connection of this.connections) connection.checkKeepalive(now);
    this.state.expire();
  }
}
