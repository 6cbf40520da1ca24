/**
 * The promise, to be watched: a simulated bottling line on real Modbus TCP, the gateway, a line to the cloud that is cut on
 * request, a cloud broker and the ingest with its historian, each a process of its own on loopback. At the end everything
 * is stopped in order, and what the PLC served is compared with what the historian holds, value by value.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sleep } from '../../lib/clock.js';
import { Closer } from '../../lib/closer.js';
import type { GatewayStatus } from '../../model/status.js';
import { Child } from './child.js';
import { type DemoPorts, gatewayConfig, ingestConfig } from './configs.js';
import type { Outage } from './plan.js';
import { Ports } from './ports.js';
import { type Reconciliation, reconcile } from './reconcile.js';

export interface DemoOptions {
  /** The compiled main.js, which every part is a command of. */
  readonly program: string;
  readonly forMs: number;
  readonly outages: readonly Outage[];
  readonly seed: number;
  /** Where data and logs go, and stay; undefined: a temporary folder that is removed. */
  readonly dir: string | undefined;
  readonly onStart: (demo: { ports: DemoPorts; replaced: readonly string[]; dir: string }) => void;
  /** About once a second. */
  readonly onTick: (tick: DemoTick) => void;
  readonly stop: AbortSignal;
}

export interface IngestStatus {
  readonly connected: boolean;
  readonly rows: number;
  readonly stored: number;
  readonly duplicates: number;
  readonly conflicts: number;
  readonly quarantined: number;
  readonly deadBatches: number;
  readonly holes: number;
}

export interface DemoTick {
  readonly phase: 'running' | 'draining';
  readonly elapsedMs: number;
  readonly forMs: number;
  readonly produced: number;
  /** What the line to the cloud does now, and for how much longer. */
  readonly cut: { readonly leftMs: number } | null;
  readonly nextOutageInMs: number | null;
  readonly gateway: GatewayStatus;
  readonly ingest: IngestStatus;
}

export interface DemoResult {
  readonly reconciliation: Reconciliation;
  readonly ingest: IngestStatus;
  readonly produced: number;
  readonly spooled: number;
  readonly delivered: number;
  readonly stored: number;
  readonly duplicates: number;
  readonly conflicts: number;
  readonly lost: number;
  readonly foreign: number;
  readonly gaps: number;
  readonly outages: number;
  readonly deepestRows: number;
}

const TICK_MS = 1_000;
/** After the run, or a Ctrl-C, the spool has this long to empty. */
const DRAIN_MS = 30_000;
const PHASE_LOOK_MS = 100;

export async function runDemo(options: DemoOptions): Promise<DemoResult> {
  const closer = new Closer();
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), 'holdfast-demo-'));
  mkdirSync(dir, { recursive: true });
  if (options.dir === undefined) closer.push('folder', () => rmSync(dir, { recursive: true, force: true }));
  try {
    const plant = await Plant.open(options, dir, closer);
    await plant.run();
    return await plant.finish();
  } finally {
    await closer.close();
  }
}

const portOf = (url: unknown): number => Number(new URL(url as string).port);

class Plant {
  private readonly options: DemoOptions;
  private readonly dir: string;
  private readonly ports: DemoPorts;
  private readonly plc: Child;
  private readonly cloud: Child;
  private readonly wan: Child;
  private readonly ingest: Child;
  private readonly gateway: Child;
  private deepestRows = 0;

  private constructor(options: DemoOptions, dir: string, ports: DemoPorts, children: readonly Child[]) {
    this.options = options;
    this.dir = dir;
    this.ports = ports;
    [this.plc, this.cloud, this.wan, this.ingest, this.gateway] = children as [Child, Child, Child, Child, Child];
  }

  static async open(options: DemoOptions, dir: string, closer: Closer): Promise<Plant> {
    const ports = new Ports();
    const children: Child[] = [];
    const start = async (
      name: string,
      wanted: readonly (keyof DemoPorts)[],
      args: () => readonly (string | number)[],
      bound: (ready: Record<string, unknown>) => Partial<DemoPorts>,
    ) => {
      const log = join(dir, `${name}.log`);
      const child = await ports.start(wanted, () =>
        Child.start(name, options.program, [...args().map(String), '--json'], log),
      );
      closer.push(name, () => child.kill());
      children.push(child);
      ports.tell(bound(child.ready));
    };
    const port = ({ port }: Record<string, unknown>) => port as number;
    const truth = join(dir, 'truth.ndjson');
    const plc = () => ['simulate', 'plc', '--port', ports.now.plc, '--seed', options.seed, '--truth', truth];
    await start('plc', ['plc'], plc, (ready) => ({ plc: port(ready) }));
    const cloud = () => ['simulate', 'cloud', '--port', ports.now.cloud];
    await start('cloud', ['cloud'], cloud, (ready) => ({ cloud: port(ready) }));
    const line = () => [
      'simulate',
      'wan',
      '--port',
      ports.now.wan,
      '--to',
      `127.0.0.1:${ports.now.cloud}`,
      '--latency',
      '25ms',
    ];
    await start('wan', ['wan'], line, (ready) => ({ wan: port(ready) }));
    const ingest = () => ['ingest', '--config', write('ingest', ingestConfig(ports.now, join(dir, 'ingest')))];
    await start('ingest', ['ingestWeb'], ingest, ({ web }) => ({ ingestWeb: portOf(web) }));
    const gateway = () => ['gateway', '--config', write('gateway', gatewayConfig(ports.now, join(dir, 'gateway')))];
    await start('gateway', ['mqtt', 'ws', 'web'], gateway, ({ mqtt, web }) => {
      const [tcp, webSocket] = mqtt as string[];
      return { mqtt: portOf(tcp), ws: portOf(webSocket), web: portOf(web) };
    });
    options.onStart({ ports: ports.now, replaced: ports.replaced, dir });
    return new Plant(options, dir, ports.now, children);

    function write(name: string, config: string): string {
      const file = join(dir, `${name}.yaml`);
      writeFileSync(file, config);
      return file;
    }
  }

  /** The run itself: cuts the line as planned and reports once a second. */
  async run(): Promise<void> {
    const { forMs, outages, stop } = this.options;
    const startedAt = performance.now();
    let reportedAt = Number.NEGATIVE_INFINITY;
    let cut = false;
    for (;;) {
      const elapsedMs = performance.now() - startedAt;
      if (elapsedMs >= forMs || stop.aborted) break;
      const outage = outages.find(({ startMs, lengthMs }) => elapsedMs >= startMs && elapsedMs < startMs + lengthMs);
      if ((outage !== undefined) !== cut) {
        cut = outage !== undefined;
        await this.wan.ask({ set: { cut: cut ? 'blackhole' : null } });
      }
      if (elapsedMs - reportedAt >= TICK_MS) {
        reportedAt = elapsedMs;
        const next = outages.find(({ startMs }) => startMs > elapsedMs);
        await this.report(
          'running',
          elapsedMs,
          outage ? outage.startMs + outage.lengthMs - elapsedMs : null,
          next ? next.startMs - elapsedMs : null,
        );
      }
      await sleep(PHASE_LOOK_MS, stop);
    }
    if (cut) await this.wan.ask({ set: { cut: null } });
    await this.drain(startedAt);
  }

  /** Stops everything in order, from the plant to the cloud, and compares both ends. */
  async finish(): Promise<DemoResult> {
    await this.gateway.end();
    const { ledgerSettled, ingest } = await this.settle();
    await this.ingest.end();
    await this.wan.end();
    await this.cloud.end();
    await this.plc.end();
    const reconciliation = reconcile({
      truthFile: join(this.dir, 'truth.ndjson'),
      historianFile: join(this.dir, 'ingest', 'historian.db'),
      spoolFile: join(this.dir, 'gateway', 'spool.db'),
    });
    const sum = (key: 'produced' | 'spooled' | 'delivered' | 'stored' | 'duplicates' | 'lost' | 'foreign') =>
      reconciliation.assets.reduce((total, asset) => total + asset[key], 0);
    return {
      reconciliation,
      ingest,
      produced: sum('produced'),
      spooled: sum('spooled'),
      delivered: sum('delivered'),
      stored: sum('stored'),
      duplicates: sum('duplicates'),
      conflicts: ingest.conflicts,
      lost: sum('lost') + (ledgerSettled ? 0 : ingest.holes),
      foreign: sum('foreign'),
      gaps: reconciliation.gaps,
      outages: this.options.outages.length,
      deepestRows: this.deepestRows,
    };
  }

  private async drain(startedAt: number): Promise<void> {
    const end = performance.now() + DRAIN_MS;
    for (;;) {
      const { gateway } = await this.report('draining', performance.now() - startedAt, null, null);
      // What is younger than the linger time is always there: it leaves with the gateway's own orderly end.
      if (gateway.upstream.state === 'online' && gateway.spool.oldestAgeMs < TICK_MS) return;
      if (performance.now() > end) return;
      await sleep(TICK_MS / 2);
    }
  }

  /** Waits until the ingest has stored what the cloud broker still holds for it. */
  private async settle(): Promise<{ ledgerSettled: boolean; ingest: IngestStatus }> {
    const end = performance.now() + DRAIN_MS;
    for (;;) {
      const { stats } = (await this.cloud.ask({ stats: true })) as { stats: { queued: number } };
      const ingest = await this.ask<IngestStatus>(this.ports.ingestWeb);
      if (stats.queued === 0 && ingest.holes === 0) return { ledgerSettled: true, ingest };
      if (performance.now() > end) return { ledgerSettled: false, ingest };
      await sleep(PHASE_LOOK_MS);
    }
  }

  private async report(
    phase: DemoTick['phase'],
    elapsedMs: number,
    cutLeftMs: number | null,
    nextOutageInMs: number | null,
  ): Promise<DemoTick> {
    const [gateway, ingest, { stats }] = await Promise.all([
      this.ask<GatewayStatus>(this.ports.web),
      this.ask<IngestStatus>(this.ports.ingestWeb),
      this.plc.ask({ stats: true }) as Promise<{ stats: { readings: number } }>,
    ]);
    this.deepestRows = Math.max(this.deepestRows, gateway.spool.rows);
    const cut = cutLeftMs === null ? null : { leftMs: cutLeftMs };
    const { forMs } = this.options;
    const tick = { phase, elapsedMs, forMs, produced: stats.readings, cut, nextOutageInMs, gateway, ingest };
    this.options.onTick(tick);
    return tick;
  }

  private async ask<T>(port: number): Promise<T> {
    return (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as T;
  }
}
