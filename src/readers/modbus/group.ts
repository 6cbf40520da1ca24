import { Backoff } from '../../lib/backoff.js';
import { sleep } from '../../lib/clock.js';
import { HoldfastError, messageOf } from '../../lib/errors.js';
import type { Millis } from '../../model/ids.js';
import type { Quality } from '../../model/reading.js';
import type { DriverContext, SampleBatch, SampleGap, TagGap } from '../driver.js';
import { PollSchedule } from '../poll-schedule.js';
import { BAD_COMM_FAILURE } from '../quality.js';
import { READ_FUNCTION } from './address.js';
import { Cycle } from './cycle.js';
import type { Answer, Device } from './device.js';
import { causeOf, exceptionCodeOf, isAboutRange, isDeviceError, qualityOfException } from './device-error.js';
import type { Link } from './link.js';
import type { Block, Extent } from './plan.js';
import { dataBytesOf } from './requests.js';
import { SkippedPolls } from './skipped-polls.js';
import { samplesOf, type Tag } from './tag.js';

export interface GroupOptions {
  /** Unique among all groups; sets the phase. */
  readonly name: string;
  readonly asset: string;
  readonly everyMs: number;
  readonly backoff: { readonly minMs: number; readonly maxMs: number };
  readonly holeRetestMs: number;
  /** Which of the device's groups it is. */
  readonly index: number;
  readonly tagCount: number;
  /** Set: what a cycle read goes out together under this name. */
  readonly message: string | undefined;
}

/**
 * Tags that are read together at one period. A cycle reads block after block and gives one batch per answer, with the time
 * of that answer; the next cycle waits until all its batches are durable. A cycle that could not be read is made up for
 * when the device returns before the next one is due; otherwise it is missed.
 */
export class Group {
  private readonly options: GroupOptions;
  private readonly device: Device;
  private readonly link: Pick<Link, 'rest'>;
  private readonly context: DriverContext;
  private readonly stopping: AbortSignal;
  /** Readings of the last cycle that are to be made up for. */
  private unread = 0;
  /**
   * Blocks that the device, though it is there, does not answer or refuses. Each try costs everyone on the link a turn, so
   * they are tried less and less often.
   */
  private readonly resting = new Map<string, { readonly backoff: Backoff; readonly untilMono: number }>();
  /** Tags that cannot be read while the device is there: what was read last, and how many readings are missing since. */
  private readonly lost = new Map<Tag, { readonly from: Millis; missed: number }>();
  private readonly skipped = new SkippedPolls();
  private lastCycleTs: Millis | undefined;

  constructor(
    options: GroupOptions,
    device: Device,
    link: Pick<Link, 'rest'>,
    context: DriverContext,
    stopping: AbortSignal,
  ) {
    this.options = options;
    this.device = device;
    this.link = link;
    this.context = context;
    this.stopping = stopping;
  }

  /** Share of the time in which its reads occupy the link; `readMs` for reads of a device that was never asked. */
  load(pauseMs: number, readMs: (dataBytes: number) => number): number {
    const known = this.device.record.status().rttMs?.p50;
    const blocks = this.device.plan.blocksOf(this.options.index);
    const busyMs = blocks.reduce((sum, { table, quantity }) => {
      const bytes = dataBytesOf({ fc: READ_FUNCTION[table], quantity });
      return sum + pauseMs + (known ?? readMs(bytes));
    }, 0);
    return busyMs / this.options.everyMs;
  }

  /** Polls until `stopping` aborts, then ends the read in progress and waits for what it handed over. */
  async run(): Promise<void> {
    const { clock } = this.context;
    const { record } = this.device;
    const { name, everyMs, tagCount } = this.options;
    const schedule = new PollSchedule({ name, everyMs, startMono: clock.mono() });
    for (;;) {
      if (this.stopping.aborted) return this.tellHoles();
      const { dueMono, missed } = schedule.next(clock.mono());
      record.countMissed(missed, tagCount);
      if (this.device.gate.isOpen) this.skipped.add(missed, this.lastCycleTs, clock.now());
      if (this.unread > 0 && (await this.device.gate.wait(this.stopping, dueMono - clock.mono()))) await this.poll();
      await sleep(dueMono - clock.mono(), this.stopping);
      if (this.stopping.aborted) return this.tellHoles();
      if (this.unread > 0) record.countMissed(1, this.unread);
      await this.poll();
    }
  }

  /** The holes that are still open at the end: nobody else will know of them. */
  private async tellHoles(): Promise<void> {
    const to = this.context.clock.now();
    const cycle = new Cycle(this.lastCycleTs);
    const gap = this.skippedGap(to, true);
    const tagGaps = [...this.lost].map(([{ name }, { from, missed }]) => ({ tag: name, from, to, missed }));
    if (gap || tagGaps.length > 0)
      this.handOver({ device: this.options.asset, ts: to, samples: [], tagGaps, ...(gap ? { gap } : {}) }, cycle);
    await Promise.all(cycle.handovers);
  }

  private async poll(): Promise<void> {
    const cycle = new Cycle(this.lastCycleTs);
    this.unread = 0;
    for (const block of this.device.plan.blocksOf(this.options.index)) {
      if (this.stopping.aborted) break;
      await this.readOrLose(block, cycle);
    }
    this.link.rest();
    for (const hole of this.lost.values()) hole.missed++;
    this.lastCycleTs = cycle.lastTs ?? this.lastCycleTs;
    const together = cycle.together(this.options.asset, this.options.message);
    if (together) this.handOver(together, cycle);
    await Promise.all(cycle.handovers);
    this.device.record.refresh();
  }

  /** True when the block gave good values. */
  private readOrLose(block: Block<Tag>, cycle: Cycle): Promise<boolean> {
    if (this.device.gate.isOpen) return this.readBlock(block, cycle);
    this.lose(block, cycle);
    return Promise.resolve(false);
  }

  private async readBlock(block: Block<Tag>, cycle: Cycle): Promise<boolean> {
    const { clock } = this.context;
    const rest = this.resting.get(keyOf(block));
    if (rest && clock.mono() < rest.untilMono) return false;
    const result = await this.device.read(block).catch((error) => {
      if (isDeviceError(error)) return error;
      throw error;
    });
    if (!(result instanceof HoldfastError)) {
      if (rest && block.tags.length === 1) this.device.plan.forgetHoles();
      this.resting.delete(keyOf(block));
      this.giveGood(block, result, cycle);
      return true;
    }
    const exception = exceptionCodeOf(result);
    const there = await this.device.isThere(block, result);
    if (this.stopping.aborted) return false;
    if (!there) this.lose(block, cycle);
    else if (isAboutRange(exception) && block.tags.length > 1) await this.bisect(block, cycle);
    else {
      const [only] = block.tags;
      if (isAboutRange(exception) && only) this.device.plan.learnRefused(only);
      if (isAboutRange(exception) || result.code === 'device.timeout') this.rest(block, isAboutRange(exception));
      const quality = exception === undefined ? BAD_COMM_FAILURE : qualityOfException(exception);
      for (const tag of block.tags)
        if (!this.lost.has(tag)) this.lost.set(tag, { from: this.lastCycleTs ?? clock.now(), missed: 0 });
      this.giveBad(block, quality, causeOf(result), cycle);
    }
    return false;
  }

  /**
   * The device refuses a range, perhaps for one register that it does not have: the others must not pay for it, not even
   * with this one cycle. What was found out is remembered by the device.
   */
  private async bisect(block: Block<Tag>, cycle: Cycle): Promise<void> {
    const middle = Math.ceil(block.tags.length / 2);
    const left = this.device.plan.blockOf(block.tags.slice(0, middle));
    const right = this.device.plan.blockOf(block.tags.slice(middle));
    const good: boolean[] = [];
    for (const half of [left, right]) {
      if (this.stopping.aborted) return;
      good.push(await this.readOrLose(half, cycle));
    }
    if (good.every(Boolean)) this.device.plan.learnSplit(right);
  }

  private rest(block: Block<Tag>, refused: boolean): void {
    const { backoff, holeRetestMs } = this.options;
    const key = keyOf(block);
    const waits =
      this.resting.get(key)?.backoff ?? new Backoff(refused ? { ...backoff, maxMs: holeRetestMs } : backoff);
    this.resting.set(key, { backoff: waits, untilMono: this.context.clock.mono() + waits.next() });
  }

  private lose(block: Block<Tag>, cycle: Cycle): void {
    this.unread += block.tags.length;
    this.giveBad(block, this.device.downQuality, 'device-down', cycle);
  }

  private giveGood(block: Block<Tag>, { data, at }: Answer, cycle: Cycle): void {
    const ts = cycle.stamp(at);
    const gap = this.device.record.takeGap(ts) ?? this.skippedGap(ts);
    const tagGaps = this.lost.size > 0 ? this.foundAgain(block, ts) : [];
    this.device.record.markGood(block.tags);
    const extras = { ...(gap ? { gap } : {}), ...(tagGaps.length > 0 ? { tagGaps } : {}) };
    this.give({ device: this.options.asset, ts, samples: samplesOf(block, data), ...extras }, cycle);
  }

  private skippedGap(to: Millis, atOnce = false): SampleGap | undefined {
    const skipped = this.skipped.take(to, atOnce);
    if (!skipped) return undefined;
    const { from, cycles } = skipped;
    return { from, to, missed: cycles * this.options.tagCount, cycles, reason: 'polls-skipped' };
  }

  private foundAgain(block: Block<Tag>, to: Millis): TagGap[] {
    const gaps: TagGap[] = [];
    for (const tag of block.tags) {
      const hole = this.lost.get(tag);
      if (hole) gaps.push({ tag: tag.name, from: hole.from, to, missed: hole.missed });
      this.lost.delete(tag);
    }
    return gaps;
  }

  private giveBad(block: Block<Tag>, quality: Quality, cause: string, cycle: Cycle): void {
    const fresh = block.tags.filter((tag) => this.device.record.markBad(tag, cause));
    if (fresh.length === 0) return;
    const samples = fresh.map(({ name, type }) => ({ tag: name, type, value: null, quality }));
    this.give({ device: this.options.asset, ts: cycle.stamp(this.context.clock.now()), samples }, cycle);
  }

  private give(batch: SampleBatch, cycle: Cycle): void {
    if (this.options.message === undefined) this.handOver(batch, cycle);
    else cycle.keep(batch);
  }

  private handOver(batch: SampleBatch, cycle: Cycle): void {
    const { device, samples } = batch;
    const given = this.context.emit(batch).catch((error) => {
      const fields = { device, samples: samples.length, detail: messageOf(error) };
      this.context.log.warn(fields, 'Samples were given up at the end');
    });
    cycle.handovers.push(given);
  }
}

const keyOf = ({ table, address, quantity }: Extent): string => `${table}:${address}+${quantity}`;
