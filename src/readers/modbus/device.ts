import { Backoff } from '../../lib/backoff.js';
import { sleep } from '../../lib/clock.js';
import { type HoldfastError, messageOf } from '../../lib/errors.js';
import type { Millis } from '../../model/ids.js';
import type { Quality } from '../../model/reading.js';
import { DeviceRecord } from '../device-record.js';
import type { DriverContext } from '../driver.js';
import { Gate } from '../gate.js';
import { BAD_COMM_FAILURE, BAD_NOT_CONNECTED } from '../quality.js';
import { READ_FUNCTION } from './address.js';
import { causeOf, exceptionCodeOf, isBusy, isDeviceError, isRefusal, isUnitDown } from './device-error.js';
import { DevicePlanner } from './device-planner.js';
import type { Link } from './link.js';
import type { DeviceLimits } from './options.js';
import { type Block, sameRange } from './plan.js';
import type { Tag } from './tag.js';

export interface DeviceOptions {
  readonly asset: string;
  readonly unit: number;
  readonly timeoutMs: number;
  readonly retries: number;
  readonly backoff: { readonly minMs: number; readonly maxMs: number };
  readonly limits: DeviceLimits;
  /** Of each of its groups. */
  readonly tags: readonly (readonly Tag[])[];
  /** How long a hole is believed in before it is tried again. */
  readonly holeRetestMs: number;
}

export interface Answer {
  readonly data: Buffer;
  /** Wall clock at its arrival. */
  readonly at: Millis;
}

/**
 * One unit on a link: how often it is asked, and whether it is there.
 *
 * A device is down when it gave no answer for `timeoutMs` · (1 + `retries`), be it silent or not connected. While it is
 * down its groups leave the link to the other units, and one probe at a time, with backoff, looks for its return.
 */
export class Device {
  readonly record: DeviceRecord;
  /** Open while the device is there; taken as there until it has been asked. */
  readonly gate = new Gate();
  readonly plan: DevicePlanner;

  private readonly options: DeviceOptions;
  private readonly link: Link;
  private readonly context: DriverContext;
  private readonly stopping: AbortSignal;
  private recovery: Promise<void> = Promise.resolve();
  private quality: Quality = BAD_NOT_CONNECTED;
  private lastGoodBlock: Block<Tag> | undefined;

  constructor(options: DeviceOptions, link: Link, context: DriverContext, stopping: AbortSignal) {
    this.options = options;
    this.link = link;
    this.context = context;
    this.stopping = stopping;
    this.record = new DeviceRecord(options.asset, context, () => link.lateAnswersOf(options.unit));
    this.plan = new DevicePlanner(options, link.cost, context.clock);
    this.gate.open();
  }

  /** What the tags of a device that is down are given. */
  get downQuality(): Quality {
    return this.quality;
  }

  /** Throws as `ModbusClient.read` does, after as many tries as may help. */
  async read(block: Block<Tag>): Promise<Answer> {
    const { clock } = this.context;
    const { timeoutMs, retries } = this.options;
    const giveUpMono = clock.mono() + timeoutMs * (1 + retries);
    // A block that failed in the last cycle gets one try: its neighbours must not wait for it again and again.
    const triesMax = block.tags.every((tag) => this.record.isBad(tag)) ? 1 : 1 + retries;
    for (let tries = 1; ; tries++) {
      if (!(await this.link.gate.wait(this.stopping, giveUpMono - clock.mono()))) throw this.link.noConnection();
      try {
        return await this.ask(block);
      } catch (error) {
        const code = exceptionCodeOf(error);
        if (!isDeviceError(error) || tries >= triesMax || isRefusal(code) || this.stopping.aborted) throw error;
        if (isBusy(code)) await sleep(BUSY_WAIT_MS, this.stopping);
      }
    }
  }

  /**
   * After a read that failed for good: whether the device is there nevertheless, so that only this block is bad. When it
   * was silent it is asked for another block, once, and is down if it does not answer that either.
   */
  async isThere(failed: Block<Tag>, error: HoldfastError): Promise<boolean> {
    if (!this.gate.isOpen) return false;
    if (this.link.gate.isOpen) {
      const exception = exceptionCodeOf(error);
      if (exception !== undefined && !isUnitDown(exception)) return true;
      if (error.code === 'device.protocol') return true;
      if (error.code === 'device.timeout') {
        const others = [...(this.lastGoodBlock ? [this.lastGoodBlock] : []), ...this.plan.allBlocks()];
        if (await this.probe(others.find((block) => !sameRange(block, failed)))) return true;
      }
    }
    if (!this.stopping.aborted) this.goDown(error);
    return false;
  }

  /** The last word of an orderly stop; the groups have ended by then. A hole that is still open is told as it is. */
  async stop(): Promise<void> {
    await this.recovery;
    const { clock, log } = this.context;
    const device = this.options.asset;
    const ts = clock.now();
    const gap = this.record.takeGap(ts);
    this.record.goOffline('stopped');
    if (!gap) return;
    await this.context.emit({ device, ts, samples: [], gap }).catch((error) => {
      log.warn(
        { device, from: gap.from, missed: gap.missed, detail: messageOf(error) },
        'A gap was given up at the end',
      );
    });
  }

  private async ask(block: Block<Tag>): Promise<Answer> {
    const { table, address, quantity } = block;
    try {
      const { data, rttMs } = await this.link.read({
        fc: READ_FUNCTION[table],
        unit: this.options.unit,
        address,
        quantity,
      });
      const at = this.context.clock.now();
      this.lastGoodBlock = block;
      this.record.answered(at, rttMs);
      this.comeBack();
      return { data, at };
    } catch (error) {
      this.record.failed(error);
      const exception = exceptionCodeOf(error);
      if (exception !== undefined && !isUnitDown(exception)) this.comeBack();
      throw error;
    }
  }

  /** One question, only to see whether anything comes back. */
  private async probe(block: Block<Tag> | undefined): Promise<boolean> {
    if (!block) return false;
    try {
      await this.ask(block);
      return true;
    } catch (error) {
      if (!isDeviceError(error)) throw error;
      const exception = exceptionCodeOf(error);
      return exception !== undefined && !isUnitDown(exception);
    }
  }

  private comeBack(): void {
    if (!this.gate.isOpen) this.context.log.info({ device: this.options.asset }, 'A device is back');
    this.record.comeBack();
    this.gate.open();
  }

  private goDown(error: HoldfastError): void {
    if (!this.gate.isOpen) return;
    this.gate.shut();
    this.quality = this.link.gate.isOpen ? BAD_COMM_FAILURE : BAD_NOT_CONNECTED;
    const { asset } = this.options;
    this.context.log.warn({ device: asset, cause: causeOf(error), detail: messageOf(error) }, 'A device is down');
    this.record.goOffline(causeOf(error));
    // One at a time: the one of an earlier outage may still be asleep, and then goes on for this one.
    this.recovery = this.recovery.then(() => this.recover());
  }

  private async recover(): Promise<void> {
    const backoff = new Backoff(this.options.backoff);
    // In turn, since it may be that one of them will never be answered.
    const blocks = [...(this.lastGoodBlock ? [this.lastGoodBlock] : []), ...this.plan.allBlocks()];
    for (let i = 0; !this.gate.isOpen && !this.stopping.aborted; i++) {
      if (this.link.gate.isOpen) await sleep(backoff.next(), this.stopping);
      else await this.link.gate.wait(this.stopping);
      if (this.gate.isOpen || this.stopping.aborted) return;
      await this.probe(blocks[i % blocks.length]);
    }
  }
}

/** "Ask again later" means a program step of the device, not a network: a tenth of a second spares it a storm. */
const BUSY_WAIT_MS = 100;
