/**
 * A fleet that comes back after an outage, a broker, and workers of one shared subscription on one PostgreSQL. One worker is
 * parked until the fleet is done, another is killed and comes back with its client id, and one is added.
 */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { openRecords } from '../../src/ingest/open-historian.js';
import { reconcile } from '../../src/ingest/reconcile.js';
import type { Millis } from '../../src/model/ids.js';
import { type FleetStats, type Percentiles, percentiles } from '../../src/sim/fleet/fleet.js';
import { holdfast, type Running } from './peers.js';
import { sql } from './postgres.js';

const MAIN = new URL('../../src/main.js', import.meta.url).pathname;
const SAMPLE_MS = 1_000;
/** Of the backlog in the historian. The first is soon, so that plants still go on on a machine that is slow to start workers. */
const PARK_SHARE = 0.02;
const KILL_SHARE = 0.2;

export interface FleetRunOptions {
  readonly url: string;
  readonly brokerPort: number;
  readonly dir: string;
  readonly workers: number;
  readonly gateways: number;
  readonly fresh: number;
  readonly backlog: string;
  readonly backlogMs: number;
  readonly interval: string;
  readonly metrics: number;
  readonly live: string;
  readonly note: (text: string) => void;
}

export interface FleetRunResult {
  readonly fleet: FleetStats;
  /** From the start of the fleet until the historian held everything. */
  readonly seconds: number;
  readonly rowsPerSecond: number;
  /** Rows that the broker had acknowledged and the store did not have while a worker was parked, and after it was back. */
  readonly parked: number;
  readonly lost: number;
  readonly duplicates: number;
  readonly conflicts: number;
  readonly metricHours: { readonly complete: number; readonly other: number };
  /** Age of the newest reading in the historian, of gateways that were not cut and of those that were; in seconds. */
  readonly freshAgeS: Percentiles;
  readonly cutAgeS: Percentiles;
}

export async function fleetRun(options: FleetRunOptions): Promise<FleetRunResult> {
  const { url, workers, note } = options;
  const running = new Map<number, Running>();
  const start = async (n: number) => void running.set(n, await worker(options, n));
  const kill = async (n: number) => {
    await running.get(n)?.stop();
    running.delete(n);
  };
  try {
    // The first makes the schema and the session of the group.
    for (let n = 0; n < workers; n++) await start(n);
    const startedAt = performance.now();
    const fleet = startFleet(options);
    const sampling = sample(options, fleet.final);
    const total = (options.backlogMs / milliseconds(options.interval)) * options.metrics * options.gateways;
    await reached(url, total * PARK_SHARE, fleet.final);
    note('worker 1 is killed and stays away');
    await kill(1);
    await reached(url, total * KILL_SHARE, fleet.final);
    note('killing worker 0 with -9; it comes back with its client id, and one is added');
    await kill(0);
    await Promise.all([start(0), start(workers)]);
    const stats = await fleet.final;
    const ages = await sampling;
    const settled = await stable(url);
    note(`the fleet is done: ${stats.rowsAcked} rows acknowledged, ${settled} in the historian; worker 1 is back`);
    await start(1);
    const deadline = performance.now() + 120_000;
    while ((await received(url)) < stats.rowsAcked && performance.now() < deadline) await delay(100);
    const seconds = (performance.now() - startedAt) / 1000;
    const [counts] = await sql<Record<string, string>>(
      url,
      'SELECT sum(duplicates) AS duplicates, sum(conflicts) AS conflicts FROM holdfast.sources',
    );
    return {
      fleet: stats,
      seconds: Math.round(seconds),
      rowsPerSecond: Math.round(stats.rowsAcked / seconds),
      parked: stats.rowsAcked - settled,
      lost: stats.rowsAcked - (await received(url)),
      duplicates: Number(counts?.duplicates),
      conflicts: Number(counts?.conflicts),
      metricHours: await verdicts(options),
      ...ages,
    };
  } finally {
    for (const n of [...running.keys()]) await kill(n);
  }
}

function worker({ url, brokerPort, dir }: FleetRunOptions, n: number): Promise<Running> {
  const config = join(dir, `worker-${n}.json`);
  writeFileSync(
    config,
    JSON.stringify({
      ingest: { id: `worker-${n}`, dataDir: join(dir, `worker-${n}`) },
      log: { level: 'error' },
      source: {
        url: `mqtt://127.0.0.1:${brokerPort}`,
        topic: '$share/historian/edge/+/batch',
        backoff: { min: '50ms', max: '500ms' },
      },
      historian: { type: 'postgres', url, connections: 2 },
      web: { listen: '127.0.0.1:0' },
    }),
    { mode: 0o600 },
  );
  return holdfast(({ web }) => Number(new URL(web as string).port), 'ingest', '--config', config);
}

function startFleet(options: FleetRunOptions): { readonly final: Promise<FleetStats> } {
  const { brokerPort, gateways, fresh, backlog, interval, metrics, live } = options;
  const flags = { to: `127.0.0.1:${brokerPort}`, gateways, fresh, backlog, interval, metrics, live };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child = spawn(process.execPath, [MAIN, 'simulate', 'fleet', ...args, '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const final = new Promise<FleetStats>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const { tick, final } = JSON.parse(line) as { tick?: FleetStats; final?: FleetStats };
      if (final) resolve(final);
      else if (tick) options.note(`${tick.rowsAcked} rows acknowledged, ${tick.drained} gateways caught up`);
    });
    child.once('exit', (code) => reject(new Error(`the fleet ended with ${code}`)));
  });
  return { final };
}

/** Rows of which the ledger says that they are here. */
async function received(url: string): Promise<number> {
  const [row] = await sql<{ rows: string | null }>(
    url,
    'SELECT sum(upper(r) - lower(r)) AS rows FROM holdfast.sources, unnest(received) AS r',
  );
  return Number(row?.rows ?? 0);
}

/** Waits until the historian has so many rows, or the fleet is done. */
async function reached(url: string, rows: number, over: Promise<unknown>): Promise<void> {
  let ended = false;
  void over.then(() => {
    ended = true;
  });
  while (!ended && (await received(url)) < rows) await delay(100);
}

/** What is received once nothing more comes. */
async function stable(url: string): Promise<number> {
  for (let before = -1; ; ) {
    const now = await received(url);
    if (now === before) return now;
    before = now;
    await delay(1_500);
  }
}

async function sample(
  { url, gateways }: FleetRunOptions,
  over: Promise<unknown>,
): Promise<Pick<FleetRunResult, 'freshAgeS' | 'cutAgeS'>> {
  const fresh: number[] = [];
  const cut: number[] = [];
  let ended = false;
  const end = () => {
    ended = true;
  };
  over.then(end, end);
  while (!ended) {
    await delay(SAMPLE_MS);
    const rows = await sql<{ gateway: string; newest: string | null }>(
      url,
      'SELECT gateway, newest_ts AS newest FROM holdfast.sources',
    );
    for (const { gateway, newest } of rows) {
      if (newest === null) continue;
      const ages = Number(gateway.replace('sim-', '')) < gateways ? cut : fresh;
      ages.push(Math.round((Date.now() - Number(newest)) / 100) / 10);
    }
  }
  return { freshAgeS: percentiles(fresh), cutAgeS: percentiles(cut) };
}

async function verdicts({ url, backlogMs }: FleetRunOptions): Promise<FleetRunResult['metricHours']> {
  const records = await openRecords({ type: 'postgres', url });
  const counts = { complete: 0, other: 0 };
  try {
    const now = Date.now();
    const window = { from: (now - backlogMs - 3_600_000) as Millis, to: (now + 1) as Millis };
    for await (const { verdict } of reconcile(records, window)) counts[verdict === 'complete' ? 'complete' : 'other']++;
  } finally {
    await records.close();
  }
  return counts;
}

export function milliseconds(text: string): number {
  const [, amount, unit] = /^(\d+)(ms|s|m|h)$/.exec(text) ?? [];
  return Number(amount) * { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }[unit as 'ms' | 's' | 'm' | 'h'];
}
