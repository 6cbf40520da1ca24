import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/lib/clock.js';
import { silentLog } from '../../src/lib/log.js';
import type { DeviceStatus, Sample, SampleBatch } from '../../src/readers/driver.js';
import { OpcuaDriver } from '../../src/readers/opcua/opcua-driver.js';
import type { OpcuaOptions } from '../../src/readers/opcua/options.js';
import { freePort } from '../../src/sim/free-port.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

/** Making a key pair takes seconds on a small machine. */
const START_MS = 60_000;

/** An OPC UA server as a process of its own. */
export class UaServer {
  readonly port: number;
  readonly dir: string;
  private readonly t: TestContext;
  private child: ChildProcess | undefined;
  private said: Record<string, unknown>[] = [];

  private constructor(t: TestContext, port: number, dir: string) {
    this.t = t;
    this.port = port;
    this.dir = dir;
  }

  static async open(t: TestContext, settings: object = {}): Promise<UaServer> {
    const server = new UaServer(t, await freePort(), tempDir(t));
    await server.start(settings);
    return server;
  }

  get url(): string {
    return `opc.tcp://127.0.0.1:${this.port}/plant`;
  }

  async start(settings: object = {}): Promise<void> {
    this.said = [];
    let stderr = '';
    const args = [
      'dist/test/fixtures/opcua-server-child.js',
      JSON.stringify({ port: this.port, dir: this.dir, ...settings }),
    ];
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    this.child = child;
    this.t.after(() => this.kill());
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    createInterface(child.stdout).on('line', (line) => {
      if (line.startsWith('{"')) this.said.push(JSON.parse(line));
    });
    await until(
      'the server to listen',
      () => {
        if (child.exitCode !== null) throw new Error(`The server ended:\n${stderr}`);
        return this.said.some((line) => 'port' in line);
      },
      START_MS,
    );
  }

  /** Resolves when the server has it. */
  async tell(command: object): Promise<void> {
    const count = this.said.length;
    this.child?.stdin?.write(`${JSON.stringify(command)}\n`);
    await until('the server to have it', () => this.said.length > count);
  }

  signal(signal: NodeJS.Signals): void {
    this.child?.kill(signal);
  }

  async kill(): Promise<void> {
    const { child } = this;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'close');
    child.kill('SIGKILL');
    await gone;
  }
}

export const PRESS: OpcuaOptions['devices'][number] = {
  asset: 'press',
  groups: [
    {
      everyMs: 50,
      samplingMs: 50,
      mode: 'subscribe',
      queue: 10,
      heartbeatMs: 3_600_000,
      tags: ['Speed', 'Count'].map((name) => ({ name, node: `nsu=urn:plant;s=${name}` })),
    },
  ],
};

/** The driver on a server, with what it handed over. */
export class UaRig {
  readonly driver: OpcuaDriver;
  readonly batches: SampleBatch[] = [];
  readonly statuses: DeviceStatus[] = [];
  readonly warnings: Record<string, unknown>[] = [];
  readonly pkiDir: string;

  constructor(t: TestContext, url: string, options: Partial<OpcuaOptions> = {}) {
    this.pkiDir = join(tempDir(t), 'pki');
    const hurry = new AbortController();
    const log = {
      ...silentLog,
      child: () => log,
      debug() {},
      info() {},
      warn: (fields: object) => void this.warnings.push(fields as Record<string, unknown>),
      error: (fields: object) => void this.warnings.push(fields as Record<string, unknown>),
    };
    this.driver = new OpcuaDriver(
      {
        url,
        mode: 'None',
        policy: 'None',
        identity: () => ({ kind: 'anonymous' }),
        pkiDir: this.pkiDir,
        connectTimeoutMs: 10_000,
        timeoutMs: 1000,
        keepAliveMs: 200,
        backoff: { minMs: 50, maxMs: 200 },
        devices: [PRESS],
        ...options,
      },
      {
        emit: async (batch) => void this.batches.push(batch),
        status: (status) => this.statuses.push(status),
        clock: systemClock,
        log,
        signal: hurry.signal,
      },
    );
    t.after(async () => {
      await this.driver.stop();
      hurry.abort();
    });
    this.driver.start();
  }

  of(tag: string): Sample[] {
    return this.batches.flatMap(({ samples }) => samples.filter((sample) => sample.tag === tag));
  }

  last(tag: string): Sample | undefined {
    return this.of(tag).at(-1);
  }

  status(): DeviceStatus {
    return this.driver.status().devices[0] as DeviceStatus;
  }

  /** Waits until the newest sample of a tag has this value. */
  async sees(tag: string, value: Sample['value']): Promise<void> {
    await until(`${tag} to be ${value}`, () => this.last(tag)?.value === value, 30_000);
  }
}
