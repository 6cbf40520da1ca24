import { Backoff } from '../../lib/backoff.js';
import { sleep } from '../../lib/clock.js';
import { HoldfastError, messageOf } from '../../lib/errors.js';
import type { Millis } from '../../model/ids.js';
import type { Quality } from '../../model/reading.js';
import type { DriverContext, SampleBatch } from '../driver.js';
import { PollSchedule } from '../poll-schedule.js';
import { BAD_COMM_FAILURE } from '../quality.js';
import type { Answer, Device } from './device.js';
import { causeOf, exceptionCodeOf, isAboutRange, isDeviceError, qualityOfException } from './device-error.js';
import type { Block } from './plan.js';
import { samplesOf, type Tag } from './tag.js';

export interface GroupOptions {
  /** Unique among all groups; sets the phase. */
  readonly name: string;
  readonly asset: string;
  readonly everyMs: number;
  readonly backoff: { readonly minMs: number; readonly maxMs: number };
  readonly blocks: readonly Block<Tag>[];
}

/**
 * Tags that are read together at one period. A cycle reads block after block and gives one batch per answer, with the time
 * of that answer; the next cycle waits until all its batches are durable. A cycle that could not be read is made up for
 * when the device returns before the next one is due; otherwise it is missed.
 */
export class Group {
  private readonly options: GroupOptions;
  private readonly device: Device;
  private readonly context: DriverContext;
  private readonly stopping: AbortSignal;
  private readonly tagCount: number;
  /** Readings of the last cycle that are to be made up for. */
  private unread = 0;
  /**
   * Blocks that the device, though it is there, does not answer. Each try costs everyone on the link a timeout, so they
   * are tried less and less often.
   */
  private readonly resting = new Map<Block<Tag>, { readonly backoff: Backoff; readonly untilMono: number }>();
  /** Blocks that were refused, as one block per tag. */
  private readonly singles = new Map<Block<Tag>, readonly Block<Tag>[]>();
  private lastCycleTs: Millis | undefined;

  constructor(options: GroupOptions, device: Device, context: DriverContext, stopping: AbortSignal) {
    this.options = options;
    this.device = device;
    this.context = context;
    this.stopping = stopping;
    this.tagCount = options.blocks.reduce((sum, block) => sum + block.tags.length, 0);
  }

  /** Polls until `stopping` aborts, then ends the read in progress and waits for what it handed over. */
  async run(): Promise<void> {
    const { clock } = this.context;
    const { record } = this.device;
    const { name, everyMs } = this.options;
    const schedule = new PollSchedule({ name, everyMs, startMono: clock.mono() });
    while (!this.stopping.aborted) {
      const { dueMono, missed } = schedule.next(clock.mono());
      record.countMissed(missed, this.tagCount);
      if (this.unread > 0 && (await this.device.gate.wait(this.stopping, dueMono - clock.mono()))) await this.poll();
      await sleep(dueMono - clock.mono(), this.stopping);
      if (this.stopping.aborted) return;
      if (this.unread > 0) record.countMissed(1, this.unread);
      await this.poll();
    }
  }

  private async poll(): Promise<void> {
    const cycle = new Cycle(this.lastCycleTs);
    this.unread = 0;
    for (const block of this.options.blocks) {
      if (this.stopping.aborted) break;
      if (this.device.gate.isOpen) await this.readBlock(block, cycle);
      else this.lose(block, cycle);
    }
    this.lastCycleTs = cycle.lastTs ?? this.lastCycleTs;
    await Promise.all(cycle.handovers);
    this.device.record.refresh();
  }

  private async readBlock(block: Block<Tag>, cycle: Cycle): Promise<void> {
    const { clock } = this.context;
    const rest = this.resting.get(block);
    if (rest && clock.mono() < rest.untilMono) return;
    const result = await this.device.read(block).catch((error) => {
      if (isDeviceError(error)) return error;
      throw error;
    });
    if (!(result instanceof HoldfastError)) {
      this.resting.delete(block);
      this.giveGood(block, result, cycle);
      return;
    }
    const exception = exceptionCodeOf(result);
    const there = await this.device.isThere(block, result);
    if (this.stopping.aborted) return;
    if (!there) this.lose(block, cycle);
    else if (isAboutRange(exception) && block.tags.length > 1) await this.readOneByOne(block, cycle);
    else {
      if (result.code === 'device.timeout') {
        const backoff = rest?.backoff ?? new Backoff(this.options.backoff);
        this.resting.set(block, { backoff, untilMono: clock.mono() + backoff.next() });
      }
      const quality = exception === undefined ? BAD_COMM_FAILURE : qualityOfException(exception);
      this.giveBad(block, quality, causeOf(result), cycle);
    }
  }

  /** The device refuses a range, perhaps for one register that it does not have: the others must not pay for it. */
  private async readOneByOne(block: Block<Tag>, cycle: Cycle): Promise<void> {
    let singles = this.singles.get(block);
    if (!singles) {
      singles = block.tags.map((tag) => ({
        table: tag.table,
        address: tag.address,
        quantity: tag.quantity,
        tags: [tag],
      }));
      this.singles.set(block, singles);
    }
    for (const single of singles) {
      if (this.stopping.aborted) return;
      if (this.device.gate.isOpen) await this.readBlock(single, cycle);
      else this.lose(single, cycle);
    }
  }

  private lose(block: Block<Tag>, cycle: Cycle): void {
    this.unread += block.tags.length;
    this.giveBad(block, this.device.downQuality, 'device-down', cycle);
  }

  private giveGood(block: Block<Tag>, { data, at }: Answer, cycle: Cycle): void {
    const ts = cycle.stamp(at);
    const gap = this.device.record.takeGap(ts);
    this.device.record.markGood(block.tags);
    this.give({ device: this.options.asset, ts, samples: samplesOf(block, data), ...(gap ? { gap } : {}) }, cycle);
  }

  private giveBad(block: Block<Tag>, quality: Quality, cause: string, cycle: Cycle): void {
    const fresh = block.tags.filter((tag) => this.device.record.markBad(tag, cause));
    if (fresh.length === 0) return;
    const samples = fresh.map(({ name, type }) => ({ tag: name, type, value: null, quality }));
    this.give({ device: this.options.asset, ts: cycle.stamp(this.context.clock.now()), samples }, cycle);
  }

  private give(batch: SampleBatch, cycle: Cycle): void {
    const { device, samples } = batch;
    const given = this.context.emit(batch).catch((error) => {
      const fields = { device, samples: samples.length, detail: messageOf(error) };
      this.context.log.warn(fields, 'Samples were given up at the end');
    });
    cycle.handovers.push(given);
  }
}

/** What belongs to one cycle only. */
class Cycle {
  readonly handovers: Promise<void>[] = [];
  lastTs: Millis | undefined;
  private readonly previousTs: Millis | undefined;

  constructor(previousTs: Millis | undefined) {
    this.previousTs = previousTs;
  }

  /**
   * Asset, metric and time identify a reading, so two cycles within one millisecond (one made up for, the next one due)
   * must not have the same time.
   */
  stamp(now: Millis): Millis {
    this.lastTs = now === this.previousTs ? ((now + 1) as Millis) : now;
    return this.lastTs;
  }
}
