/** A gateway as a process of its own, with what a scenario needs around it: publishers, a subscriber, a cloud. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { connect, connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { freePort } from '../../src/sim/free-port.js';
import { decodeBatch } from '../../src/wire/decode.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';
import { BRIDGED } from './ledger.js';

export interface PlantOptions {
  /** Environment of the gateway's process. */
  readonly env?: NodeJS.ProcessEnv;
  /** The folder that holds `data/`; a fresh one when absent. */
  readonly folder?: string;
  /** Number of the first message. */
  readonly firstId?: number;
  readonly variants?: readonly Variant[];
}

/** What the cloud was sent: its seqs, the numbers of its readings, and rows with repetitions. */
interface InCloud {
  readonly seqs: Set<number>;
  readonly ids: Set<number>;
  rows: number;
}

export interface PublishOptions {
  readonly count: number;
  readonly qos?: 1 | 2;
  /** Publishes not yet acknowledged. */
  readonly window?: number;
  /** Bytes added to each payload; without, messages are readings. */
  readonly padBytes?: number;
}

/** Modules in `variants/`, loaded into the gateway before it starts: defects to be found, and a limit made small. */
export type Variant =
  | 'small-log'
  | 'sync-normal'
  | 'sync-off'
  | 'ack-before-commit'
  | 'pubrec-before-commit'
  | 'ack-on-any-sync'
  | 'ack-on-later-sync'
  | 'delete-when-sent'
  | 'guard-ignored'
  | 'seq-starts-over'
  | 'plain-restart';

/** Bridged readings, retained values among them; the branch of the subscriber; and what stays in the plant. */
const TOPICS = [
  'plant/press/force',
  'plant/press/stroke',
  'plant/oven/heat',
  'plant/oven/door',
  'local/shift',
] as const;
const RETAINED: ReadonlySet<string> = new Set(['plant/oven/heat', 'plant/oven/door', 'local/shift']);
const SUBSCRIBED = 'plant/press/#';
const SESSION: IClientOptions = {
  clientId: 'hmi',
  clean: false,
  protocolVersion: 5,
  properties: { sessionExpiryInterval: 3600 },
};
const CLEAR_EVERY = 11;

export class Plant {
  readonly folder: string;
  readonly cloud: FaultBroker;
  private readonly t: TestContext;
  private readonly options: PlantOptions;
  private readonly config: string;
  private readonly url: string;
  private child: ChildProcess | undefined;
  private complaints = '';
  private nextId: number;
  /** Messages in bridged topics that publishers were told are safe. */
  readonly acknowledgedIds = new Set<number>();
  private bridged = 0;
  readonly inCloud: InCloud;

  private constructor(t: TestContext, options: PlantOptions, cloud: FaultBroker, port: number, inCloud: InCloud) {
    this.t = t;
    this.options = options;
    this.cloud = cloud;
    this.inCloud = inCloud;
    this.nextId = options.firstId ?? 1;
    this.folder = options.folder ?? join(tempDir(t), 'device');
    mkdirSync(this.folder, { recursive: true });
    this.url = `mqtt://127.0.0.1:${port}`;
    this.config = join(tempDir(t), 'gateway.yaml');
    writeFileSync(this.config, configOf(this.folder, this.url, cloud.port));
  }

  static async open(t: TestContext, options: PlantOptions = {}): Promise<Plant> {
    const inCloud = { seqs: new Set<number>(), ids: new Set<number>(), rows: 0 };
    const take = (payload: Buffer) => {
      const { rows } = decodeBatch(payload);
      inCloud.rows += rows.length;
      for (const row of rows) {
        inCloud.seqs.add(row.seq);
        if ('value' in row) inCloud.ids.add(Number(row.value));
      }
    };
    const cloud = await FaultBroker.open({ port: 0, onPublish: ({ payload }) => take(payload) });
    t.after(() => cloud.close());
    return new Plant(t, options, cloud, await freePort(), inCloud);
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  get pid(): number {
    return this.child?.pid as number;
  }

  /** Starts the gateway and waits until its doors are open. */
  async start(env: NodeJS.ProcessEnv = {}): Promise<void> {
    const imports = (this.options.variants ?? []).flatMap((name) => [
      '--import',
      resolve(`dist/test/crash/variants/${name}.js`),
    ]);
    const args = [...imports, 'dist/src/main.js', 'gateway', '--config', this.config, '--json'];
    const child = spawn(process.execPath, args, {
      env: { ...process.env, UV_USE_IO_URING: '0', ...this.options.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child = child;
    this.t.after(() => this.kill());
    child.stderr.on('data', (bytes) => {
      this.complaints += bytes;
    });
    const ready = once(createInterface(child.stdout), 'line');
    const ended = once(child, 'exit').then(([code, signal]) => {
      throw new Error(`the gateway ended with ${code ?? signal}: ${this.complaints}`);
    });
    ended.catch(() => {});
    await Promise.race([ready, ended]);
  }

  async kill(): Promise<void> {
    await this.end('SIGKILL');
  }

  /** Ends it in order; resolves with the exit code. */
  async stop(): Promise<number | null> {
    return this.end('SIGTERM');
  }

  /** Resolves with the exit code when the gateway has ended by itself. */
  async ended(): Promise<number | null> {
    const child = this.child as ChildProcess;
    await until('the gateway ends', () => child.exitCode !== null || child.signalCode !== null);
    return child.exitCode;
  }

  async client(options: IClientOptions = {}): Promise<MqttClient> {
    const client = await connectAsync(this.url, { reconnectPeriod: 20, ...options });
    client.on('error', () => {});
    this.t.after(() => client.endAsync(true));
    return client;
  }

  /** Publishes numbered messages; resolves when all are acknowledged. */
  async publish(client: MqttClient, { count, qos = 1, window = 4, padBytes = 0 }: PublishOptions): Promise<void> {
    const last = this.nextId + count;
    const worker = async () => {
      while (this.nextId < last) await this.publishOne(client, this.nextId++, qos, padBytes);
    };
    await Promise.all(Array.from({ length: window }, worker));
  }

  /** Publishes until `signal` aborts or the gateway goes, without waiting for the last acknowledgements. */
  publishUntil(client: MqttClient, signal: AbortSignal, { window = 4, padBytes = 0 } = {}): void {
    const worker = async () => {
      while (!signal.aborted) await this.publishOne(client, this.nextId++, 1, padBytes);
    };
    for (let i = 0; i < window; i++) worker().catch(() => {});
  }

  /** A persistent session that hears the press, and goes away again. */
  async leaveSession(): Promise<void> {
    const client = await this.client(SESSION);
    await client.subscribeAsync(SUBSCRIBED, { qos: 1 });
    await client.endAsync();
  }

  /** Comes back to the session and takes `count` messages. */
  async collect(count: number): Promise<void> {
    let got = 0;
    const client = connect(this.url, { reconnectPeriod: 20, ...SESSION });
    client.on('error', () => {});
    client.on('message', () => got++);
    this.t.after(() => client.endAsync(true));
    await until(`${count} queued messages`, () => got >= count);
    await client.endAsync();
  }

  /** Until the cloud has been sent everything that was published to it. */
  async drained(): Promise<void> {
    await until('the cloud has everything', () => this.inCloud.seqs.size >= this.bridged);
  }

  private async publishOne(client: MqttClient, id: number, qos: 1 | 2, padBytes: number): Promise<void> {
    const topic = TOPICS[id % TOPICS.length] as string;
    const retain = RETAINED.has(topic);
    if (topic.startsWith(BRIDGED)) this.bridged++;
    const pad = padBytes > 0 ? `,"pad":"${'x'.repeat(padBytes)}"` : '';
    await client.publishAsync(topic, `{"ts":${1_790_000_000_000 + id},"value":${id}${pad}}`, { qos, retain });
    if (topic.startsWith(BRIDGED)) this.acknowledgedIds.add(id);
    if (topic === 'local/shift' && id % CLEAR_EVERY === 0) await client.publishAsync(topic, '', { qos, retain });
  }

  private async end(signal: NodeJS.Signals): Promise<number | null> {
    const { child } = this;
    if (!child || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null;
    const exit = once(child, 'exit');
    child.kill(signal);
    await exit;
    return child.exitCode;
  }
}

function configOf(folder: string, url: string, cloudPort: number): string {
  return `
gateway: { id: crash, dataDir: ${join(folder, 'data')} }
broker: { listeners: [ { url: "${url}", anonymous: true } ] }
spool: { diskFreeMin: 0B }
upstream:
  url: "mqtt://127.0.0.1:${cloudPort}"
  onNoSubscribers: accept
  linger: 5ms
  batchRowsMax: 8
  inFlightMax: 4
  ackTimeout: 2s
  backoff: { min: 10ms, max: 20ms }
`;
}
