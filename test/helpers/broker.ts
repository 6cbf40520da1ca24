import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import mqtt, { type Packet } from 'mqtt-packet';
import type { Admit, Publication } from '../../src/broker/admit.js';
import { Broker, type BrokerOptions } from '../../src/broker/broker.js';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import type { Seq } from '../../src/model/ids.js';
import type { SpoolRow } from '../../src/model/row.js';
import { Spool } from '../../src/spool/spool.js';
import { Store } from '../../src/store/store.js';
import { tempDir } from './tmp.js';
import { until } from './wait.js';

export interface Plant {
  broker: Broker;
  store: Store;
  spool: Spool;
  port: number;
  url: string;
  /** Messages for which this says true are admitted only at `release()`. */
  hold: (message: Publication) => boolean;
  held: (() => void)[];
  release(): void;
  /** Closes broker and store, and opens them again on the same file. */
  restart(options?: Partial<BrokerOptions>): Promise<void>;
  close(): Promise<void>;
  rows(): Promise<SpoolRow[]>;
}

/** A broker on a real file, joined to a real spool that takes every topic but those of the server. */
export async function openPlant(t: TestContext, options: Partial<BrokerOptions> = {}): Promise<Plant> {
  const path = join(tempDir(t), 'spool.db');
  const plant = { hold: () => false, held: [] as (() => void)[] } as unknown as Plant;
  const open = async (more: Partial<BrokerOptions>): Promise<void> => {
    const store = await Store.open({ path, tables: [Spool.tables, Broker.tables] });
    const spool = await Spool.open(store, systemClock);
    const admit: Admit = (message, identity, ops, done) => {
      const bridged = !message.topic.startsWith('$');
      const row = identity ?? { type: 'p' as const, asset: null, metric: null, deviceTs: null };
      const unit = bridged ? [...ops, spool.row({ ...message, ...row })] : ops;
      if (plant.hold(message)) plant.held.push(() => store.submit(unit, done));
      else store.submit(unit, done);
    };
    const listeners = [{ url: 'mqtt://127.0.0.1:0', anonymous: true }];
    const broker = await Broker.open({
      store,
      admit,
      listeners,
      clock: systemClock,
      log: silentLog,
      ...options,
      ...more,
    });
    const url = broker.addresses[0] as string;
    Object.assign(plant, { store, spool, broker, url, port: Number(new URL(url).port) });
  };
  plant.release = () => {
    for (const go of plant.held.splice(0)) go();
  };
  plant.close = async () => {
    await plant.broker.close({ budgetMs: 500 });
    await plant.store.close();
  };
  plant.restart = async (more = {}) => {
    await plant.close();
    await open(more);
  };
  plant.rows = () => plant.spool.peek(0 as Seq, 1_000_000, 1 << 30);
  await open({});
  t.after(() => plant.close());
  return plant;
}

/** An MQTT.js client that goes away with the test. */
export async function client(
  t: TestContext,
  plant: { url: string },
  options: IClientOptions = {},
): Promise<MqttClient> {
  const connected = await connectAsync(plant.url, { reconnectPeriod: 0, ...options });
  connected.on('error', () => {});
  t.after(() => connected.endAsync(true));
  return connected;
}

export interface Received {
  topic: string;
  text: string;
  qos: number;
  retain: boolean;
  dup: boolean;
}

export function collect(subscriber: MqttClient): Received[] {
  const received: Received[] = [];
  subscriber.on('message', (topic, payload, { qos, retain, dup }) => {
    received.push({ topic, text: payload.toString(), qos, retain, dup });
  });
  return received;
}

/** A socket that says exactly what a test wants said. Acknowledges nothing by itself. */
export class RawClient {
  readonly socket: Socket;
  readonly version: number;
  readonly packets: Packet[] = [];
  closed = false;

  private constructor(socket: Socket, version: number) {
    this.socket = socket;
    this.version = version;
    const parser = mqtt.parser({ protocolVersion: version });
    parser.on('packet', (packet) => void this.packets.push(packet));
    parser.on('error', () => {});
    socket.on('data', (chunk) => parser.parse(chunk as Buffer));
    socket.on('close', () => {
      this.closed = true;
    });
    socket.on('error', () => {});
  }

  static async open(t: TestContext, port: number, version = 4): Promise<RawClient> {
    const socket = connectTcp({ port, host: '127.0.0.1', noDelay: true });
    t.after(() => socket.destroy());
    await once(socket, 'connect');
    return new RawClient(socket, version);
  }

  /** Opened, CONNECT sent and accepted. */
  static async connect(t: TestContext, port: number, clientId: string, options: object = {}): Promise<RawClient> {
    const { version = 4, ...rest } = options as { version?: number };
    const raw = await RawClient.open(t, port, version);
    raw.send({
      cmd: 'connect',
      protocolId: 'MQTT',
      protocolVersion: version as 4,
      clientId,
      clean: true,
      keepalive: 0,
      ...rest,
    });
    await raw.next('connack');
    return raw;
  }

  send(packet: object): void {
    this.socket.write(mqtt.generate(packet as Packet, { protocolVersion: this.version }));
  }

  publish(topic: string, payload: string | Buffer, qos: number, messageId?: number, more: object = {}): void {
    this.send({ cmd: 'publish', topic, payload, qos, dup: false, retain: false, messageId, ...more });
  }

  /** Takes the first packet of this kind out of what has come. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever fields they expect
  next(cmd: string): Promise<any> {
    return until(`${cmd} from the broker`, () => {
      const at = this.packets.findIndex((packet) => packet.cmd === cmd);
      return at >= 0 && this.packets.splice(at, 1)[0];
    });
  }

  gone(): Promise<true> {
    return until('the broker closes the connection', () => this.closed);
  }

  /** Answers only once everything before it has been read. */
  async ping(): Promise<void> {
    this.send({ cmd: 'pingreq' });
    await this.next('pingresp');
  }
}
