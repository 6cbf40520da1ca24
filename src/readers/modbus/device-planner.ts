import type { Clock } from '../../lib/clock.js';
import { Holes } from './holes.js';
import type { LinkCost } from './link-cost.js';
import type { DeviceLimits } from './options.js';
import { type Block, blockOf, planBlocks } from './plan.js';
import type { Tag } from './tag.js';

export interface DevicePlannerOptions {
  readonly limits: DeviceLimits;
  /** Of each of its groups. */
  readonly tags: readonly (readonly Tag[])[];
  readonly holeRetestMs: number;
}

/** How a device is best read, with what is known by now of its limits, its holes and the cost of asking. */
export class DevicePlanner {
  private readonly options: DevicePlannerOptions;
  private readonly cost: LinkCost;
  private readonly holes: Holes;
  private plannedGap: number | undefined;
  private plans: { readonly version: string; readonly groups: readonly (readonly Block<Tag>[])[] } | undefined;

  constructor(options: DevicePlannerOptions, cost: LinkCost, clock: Clock) {
    this.options = options;
    this.cost = cost;
    this.holes = new Holes(options.holeRetestMs, clock);
  }

  /** The reads of a group. */
  blocksOf(group: number): readonly Block<Tag>[] {
    const { limits, tags } = this.options;
    const gapRegisters = this.gapRegisters();
    const version = `${this.holes.version()} ${gapRegisters}`;
    if (this.plans?.version !== version) {
      const options = { ...limits, gapRegisters, holes: this.holes };
      this.plans = { version, groups: tags.map((each) => planBlocks(each, options)) };
    }
    return this.plans.groups[group] as readonly Block<Tag>[];
  }

  allBlocks(): readonly Block<Tag>[] {
    return this.options.tags.flatMap((_, group) => this.blocksOf(group));
  }

  /** A read of these tags only, for finding out which of them the device refuses. */
  blockOf(tags: readonly Tag[]): Block<Tag> {
    return blockOf(tags, this.options.limits);
  }

  /** The device refuses this tag by itself. */
  learnRefused(tag: Tag): void {
    this.holes.isolate(tag);
  }

  /** The device answers both reads, and refuses the one that would cover both. */
  learnSplit(right: Block<Tag>): void {
    this.holes.split(right);
  }

  /** A tag that was refused is there after all; what else was learnt may be as old. */
  forgetHoles(): void {
    this.holes.clear();
  }

  /** In steps of doubling, so that the plan does not change with every breath of the network. */
  private gapRegisters(): number {
    const { gap = 'auto' } = this.options.limits;
    if (gap !== 'auto') return gap;
    const now = this.cost.gapRegisters();
    const planned = this.plannedGap;
    if (planned !== undefined && now <= planned * 2 && now >= planned / 2) return planned;
    this.plannedGap = now;
    return now;
  }
}
