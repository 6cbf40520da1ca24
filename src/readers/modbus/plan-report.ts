import { formatAddress, READ_FUNCTION } from './address.js';
import { byteTimeMsOf, frameGapMsOf, targetOf } from './endpoint.js';
import { LinkCost } from './link-cost.js';
import type { ModbusOptions } from './options.js';
import { planBlocks } from './plan.js';
import { dataBytesOf } from './requests.js';
import { compileTags } from './tag.js';

export interface PlannedRead {
  readonly at: string;
  readonly fc: number;
  readonly quantity: number;
  readonly tags: readonly string[];
  /** What it takes on the line. */
  readonly ms: number;
}

export interface PlannedGroup {
  readonly asset: string;
  readonly unit: number;
  readonly everyMs: number;
  readonly reads: readonly PlannedRead[];
  readonly cycleMs: number;
}

export interface PlanReport {
  readonly target: string;
  readonly groups: readonly PlannedGroup[];
  /** Share of the time in which the line is busy; above 1 cycles will be missed. */
  readonly load: number;
}

/**
 * What will be asked of a link, and how busy that makes it. On a serial line the time follows from the baud rate; elsewhere
 * `rttMs` is taken for every read. Throws `config.invalid` as the driver does.
 */
export function planReport(options: ModbusOptions, rttMs: number): PlanReport {
  const byteTimeMs = byteTimeMsOf(options.endpoint);
  const cost = new LinkCost(byteTimeMs);
  const compiled = compileTags(options);
  const groups = options.devices.flatMap(({ asset, unit, minGapMs = 0, limits = {}, groups }, d) =>
    groups.map(({ everyMs }, g): PlannedGroup => {
      const pauseMs = Math.max(minGapMs, options.minGapMs, frameGapMsOf(options.endpoint));
      const { gap = 'auto' } = limits;
      const gapRegisters = gap === 'auto' ? cost.gapRegisters() : gap;
      const reads = planBlocks(compiled[d]?.[g] ?? [], { ...limits, gapRegisters }).map((block): PlannedRead => {
        const { table, address, quantity, tags } = block;
        const fc = READ_FUNCTION[table];
        const ms = (byteTimeMs > 0 ? cost.readMs(dataBytesOf({ fc, quantity })) : rttMs) + pauseMs;
        return { at: formatAddress(table, address), fc, quantity, tags: tags.map(({ name }) => name), ms };
      });
      return { asset, unit, everyMs, reads, cycleMs: reads.reduce((sum, { ms }) => sum + ms, 0) };
    }),
  );
  const load = groups.reduce((sum, { cycleMs, everyMs }) => sum + cycleMs / everyMs, 0);
  return { target: targetOf(options.endpoint), groups, load };
}
