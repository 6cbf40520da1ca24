/**
 * Aedes 1.2.0, unmodified, for what it is good at: the sequence of CONNECT, the registry of clients, the validation of
 * SUBSCRIBE and UNSUBSCRIBE. It sees 3.1.1 control packets of clean sessions only, and decides; durable state, routing and
 * delivery are ours, because Aedes acknowledges before it stores and loses messages on the way to subscribers.
 *
 * What this rests on, and `broker.aedes-contract.test.ts` checks: `authenticate` runs before anything else of a CONNECT is
 * done; SUBACK codes come in the order of the filters sent; `authorizeSubscribe` decides each of them; `publish`,
 * `subscribe` and `unsubscribe` can be overridden.
 */
import { Duplex } from 'node:stream';
import { Aedes, type Client } from 'aedes';
import mqtt, { type Packet } from 'mqtt-packet';
import type { Log } from '../lib/log.js';

/** Our side of the pipe to Aedes that belongs to one connection. */
export class ControlChannel extends Duplex {
  readonly owner: ControlOwner;
  private readonly parser = mqtt.parser({ protocolVersion: 4 });

  constructor(owner: ControlOwner) {
    super();
    this.owner = owner;
    this.parser.on('packet', (packet) => owner.onVerdict(packet));
    this.on('error', () => {});
  }

  pass(packet: Packet): void {
    if (!this.destroyed) this.push(mqtt.generate(packet, { protocolVersion: 4 }));
  }

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.parser.parse(bytes);
    done();
  }

  override _destroy(_error: Error | null, done: () => void): void {
    this.owner.onChannelClosed();
    done();
  }
}

export interface ControlOwner {
  readonly isClosed: boolean;
  /** True when the client may come in and has its session. Never rejects. */
  authenticate(): Promise<boolean>;
  maySubscribe(filter: string): boolean;
  /** CONNACK, SUBACK or UNSUBACK. */
  onVerdict(packet: Packet): void;
  onChannelClosed(): void;
}

/** Its heartbeat serves clusters; four of these must stay below 2³¹ ms. */
const HEARTBEAT_MS = 600_000;

type Done = (error?: null) => void;

export class AedesCore extends Aedes {
  private constructor(log: Log) {
    super({
      concurrency: 0,
      heartbeatInterval: HEARTBEAT_MS,
      drainTimeout: 0,
      authenticate: (client, _username, _password, done) => {
        ownerOf(client)
          .authenticate()
          .then((admitted) => done(null, admitted))
          .catch((error: Error) => {
            log.error({ cause: error.message }, 'Aedes failed');
            client.conn.destroy();
          });
      },
      authorizeSubscribe: (client, subscription, done) =>
        done(null, ownerOf(client).maySubscribe(subscription.topic) ? subscription : null),
      authorizeForward: () => null,
    });
    this.on('client', (client) => {
      // It registers clients that have died while connecting, and keeps them.
      const unregister = (this as unknown as { unregisterClient?(client: Client): void }).unregisterClient;
      setImmediate(() => {
        if (ownerOf(client).isClosed) unregister?.call(this, client);
      });
    });
    for (const event of ['clientError', 'connectionError'] as const)
      this.on(event, (client, error) => log.debug({ client: client?.id, cause: error.message }, 'A client failed'));
    this.on('error' as 'closed', ((error: Error) => log.error({ cause: error.message }, 'Aedes failed')) as () => void);
  }

  static async open(log: Log): Promise<AedesCore> {
    const core = new AedesCore(log);
    await core.listen();
    return core;
  }

  /** Notices about clients that Aedes would route to itself. */
  override publish(_packet: unknown, client?: unknown, done?: Done): void {
    settle(typeof client === 'function' ? (client as Done) : done);
  }

  /** The router has the subscriptions; a second tree would only cost memory. */
  override subscribe(_topic: string, _deliver: unknown, done?: Done): void {
    settle(done);
  }

  /** Without `done` when a subscription is replaced: `deliver` is not to be called in its place. */
  override unsubscribe(_topic: string, _deliver: unknown, done?: Done): void {
    settle(done);
  }

  async shut(): Promise<void> {
    await new Promise<void>((resolve) => this.close(resolve));
  }
}

function settle(done: Done | undefined): void {
  // In this turn of the loop: a SUBSCRIBE that was read first is in force before a PUBLISH that is read next.
  if (done) process.nextTick(() => done(null));
}

function ownerOf(client: Client): ControlOwner {
  return (client.conn as ControlChannel).owner;
}
