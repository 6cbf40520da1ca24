/**
 * Gateways that come back at the same moment after an outage that they shared, each with hours of backlog, while their plants
 * go on; and some that were not cut, whose readings must stay fresh meanwhile.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { FleetGateway } from './gateway.js';

export interface FleetOptions {
  readonly host: string;
  readonly port: number;
  /** Gateways with a backlog. */
  readonly gateways: number;
  /** Gateways without one. */
  readonly fresh: number;
  readonly backlogMs: number;
  readonly intervalMs: number;
  readonly metrics: number;
  /** How long the plants go on after the outage. */
  readonly liveMs: number;
  readonly batchRows: number;
  readonly window: number;
  /** Share of the gateways whose line fails once more while they catch up, 0 to 1. */
  readonly cutShare: number;
  readonly stop: AbortSignal;
  readonly onTick?: (stats: FleetStats) => void;
}

export interface FleetStats {
  readonly gateways: number;
  readonly readings: number;
  readonly rowsAcked: number;
  readonly batches: number;
  readonly repeatedBatches: number;
  readonly connects: number;
  readonly drained: number;
  /** From the start until a gateway's backlog was taken by the broker, in seconds. */
  readonly drainSeconds: Percentiles;
  /** Age of readings when the broker took them, of gateways that were not cut, while others catch up; in milliseconds. */
  readonly freshAgeMs: Percentiles;
  readonly done: boolean;
}

export interface Percentiles {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly max: number | null;
}

const TICK_MS = 1_000;
const PUMP_MS = 250;
/** In the middle of the catching up, with a full window. */
const CUT_AFTER_BATCHES = 3;

/** Resolves when everything has been acknowledged, or at the wish to stop. */
export async function runFleet(options: FleetOptions): Promise<FleetStats> {
  const { gateways, fresh, backlogMs, intervalMs, liveMs, stop, cutShare } = options;
  const startedAt = performance.now();
  const wallAt = Date.now();
  const ages: number[] = [];
  const epoch = wallAt.toString(36);
  const fleet = Array.from({ length: gateways + fresh }, (_, n) => {
    const wasCut = n < gateways;
    // Each has a phase of its own, as clocks have that nobody has set together.
    const phase = Math.floor((n * intervalMs) / (gateways + fresh));
    return new FleetGateway({
      ...options,
      id: `sim-${String(n).padStart(5, '0')}`,
      epoch,
      asset: `asset-${n}`,
      startTs: wallAt - (wasCut ? backlogMs : 0) + phase,
      endTs: wallAt + liveMs,
      now: () => Date.now(),
      cutAfterBatches: n < cutShare * gateways ? CUT_AFTER_BATCHES : undefined,
      onAcked: (_gateway, newestTs) => {
        if (!wasCut) ages.push(Date.now() - newestTs);
      },
    });
  });
  const stats = (): FleetStats => statsOf(fleet, gateways, ages, startedAt);
  for (const gateway of fleet) gateway.connect();
  let tickedAt = startedAt;
  while (!stop.aborted && !fleet.every((gateway) => gateway.done)) {
    await delay(PUMP_MS);
    for (const gateway of fleet) gateway.pump();
    if (performance.now() - tickedAt < TICK_MS) continue;
    tickedAt = performance.now();
    options.onTick?.(stats());
  }
  for (const gateway of fleet) gateway.close();
  return stats();
}

function statsOf(fleet: readonly FleetGateway[], cut: number, ages: readonly number[], startedAt: number): FleetStats {
  const sum = (of: (gateway: FleetGateway) => number) => fleet.reduce((total, gateway) => total + of(gateway), 0);
  const drains = fleet
    .slice(0, cut)
    .flatMap(({ drainedAt }) => (drainedAt === undefined ? [] : [drainedAt - startedAt]));
  return {
    gateways: fleet.length,
    readings: sum(({ stream }) => stream.readings),
    rowsAcked: sum((gateway) => gateway.stats.rowsAcked),
    batches: sum((gateway) => gateway.stats.batches),
    repeatedBatches: sum((gateway) => gateway.stats.repeated),
    connects: sum((gateway) => gateway.stats.connects),
    drained: drains.length,
    drainSeconds: percentiles(drains.map((ms) => Math.round(ms / 100) / 10)),
    freshAgeMs: percentiles(ages),
    done: fleet.every((gateway) => gateway.done),
  };
}

export function percentiles(values: readonly number[]): Percentiles {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
  return { p50: at(0.5), p95: at(0.95), max: sorted.at(-1) ?? null };
}
