import { setMaxListeners } from 'node:events';
import { sleep } from '../../lib/clock.js';
import { isBitTable, REGISTERS_PER_READ_MAX } from '../../model/modbus.js';
import type { Driver, DriverContext, ReaderStatus, WriteCommand, WriteResult } from '../driver.js';
import { formatAddress, READ_FUNCTION } from './address.js';
import { Device } from './device.js';
import { DeviceWriter } from './device-writer.js';
import { frameGapMsOf, targetOf } from './endpoint.js';
import { Group } from './group.js';
import { Link } from './link.js';
import type { ModbusOptions } from './options.js';
import { type Extent, planBlocks } from './plan.js';
import type { ReadRequest } from './requests.js';
import { compileTags, type Tag } from './tag.js';

/**
 * Reads the units behind one Modbus endpoint, on TCP or a serial line: one link, on it devices, in them groups of tags. Every value is that of
 * its own register at the time it carries, or there is none and the stream says so.
 */
export class ModbusDriver implements Driver {
  private readonly options: ModbusOptions;
  private readonly context: DriverContext;
  private readonly link: Link;
  private readonly devices: Device[] = [];
  private readonly writable = new Map<string, { readonly tags: readonly Tag[][]; readonly writer: DeviceWriter }>();
  private readonly groups: Group[] = [];
  private readonly stopping = new AbortController();
  private runs: Promise<void>[] = [];
  private stopped: Promise<void> | undefined;

  /** Throws `config.invalid` with every problem in the addresses, types and names. */
  constructor(options: ModbusOptions, context: DriverContext) {
    const tags = compileTags(options);
    // Every group, device and wait listens to it.
    setMaxListeners(0, this.stopping.signal);
    this.options = options;
    this.context = context;
    const {
      pauseAfterConnectMs = 0,
      acceptAnyUnit = false,
      localEcho = false,
      holeRetestMs = HOLE_RETEST_MS,
    } = options;
    const { closeAfterPoll = false } = options;
    const units = new Map(
      options.devices.map(({ unit, timeoutMs = options.timeoutMs, minGapMs = 0 }, d) => {
        const region = largestRead(unit, planBlocks(tags[d]?.flat() ?? [], { gapRegisters: 0 }));
        return [unit, { region, timeoutMs, minGapMs }];
      }),
    );
    const linkOptions = { ...options, pauseAfterConnectMs, acceptAnyUnit, localEcho, closeAfterPoll, units };
    this.link = new Link(linkOptions, context.clock, context.log, this.stopping.signal);
    for (const [d, { asset, unit, groups, limits = {}, ...own }] of options.devices.entries()) {
      const { timeoutMs = options.timeoutMs, retries = options.retries } = own;
      const device = new Device(
        { ...options, asset, unit, timeoutMs, retries, limits, holeRetestMs, tags: tags[d] ?? [] },
        this.link,
        context,
        this.stopping.signal,
      );
      this.devices.push(device);
      const writer = new DeviceWriter(unit, limits, this.link, context);
      this.writable.set(asset, { tags: tags[d] ?? [], writer });
      for (const [index, { everyMs, message }] of groups.entries()) {
        const name = `${asset}/${unit}/${index}`;
        const tagCount = tags[d]?.[index]?.length ?? 0;
        if (tagCount === 0) continue;
        const { backoff } = options;
        const groupOptions = { name, asset, everyMs, backoff, holeRetestMs, index, tagCount, message };
        this.groups.push(new Group(groupOptions, device, this.link, context, this.stopping.signal));
      }
    }
  }

  start(): void {
    this.context.signal.addEventListener('abort', this.onAbort, { once: true });
    if (this.context.signal.aborted) this.onAbort();
    for (const device of this.devices) device.record.refresh();
    this.link.start();
    this.runs = this.groups.map((group) => group.run());
    this.tellPlan();
    void sleep(LOAD_MEASURED_AFTER_MS, this.stopping.signal).then(() => this.tellLoad());
  }

  stop(): Promise<void> {
    this.stopped ??= this.end();
    return this.stopped;
  }

  status(): ReaderStatus {
    return {
      protocol: 'modbus',
      link: this.link.status(),
      devices: this.devices.map((device) => device.record.status()),
    };
  }

  async write({ device, tag: name, value }: WriteCommand, mayStart: () => boolean): Promise<WriteResult> {
    const known = this.writable.get(device);
    const tag = known?.tags.flat().find((each) => each.name === name);
    if (!known || !tag) return { outcome: 'rejected', code: 'unknown-tag' };
    if (!tag.write) return { outcome: 'rejected', code: 'not-writable' };
    return known.writer.write(tag, value, mayStart);
  }

  /** Addresses as they go over the wire, so that one that is off by one is found by looking at the log. */
  private tellPlan(): void {
    for (const [d, { asset, unit, groups }] of this.options.devices.entries()) {
      const blocks = this.devices[d]?.plan.allBlocks() ?? [];
      const reads = blocks.slice(0, READS_TOLD_MAX).map(({ table, address, quantity }) => {
        return `function ${READ_FUNCTION[table]}: ${formatAddress(table, address)} +${quantity}`;
      });
      const tags = groups.reduce((sum, group) => sum + group.tags.length, 0);
      this.context.log.info(
        { device: asset, unit, tags, blocks: blocks.length, reads },
        'A device is going to be read',
      );
    }
    this.tellLoad();
  }

  /** A line that is asked for more than it can give misses cycles for ever; better said than found out. */
  private tellLoad(): void {
    if (this.stopping.signal.aborted) return;
    const { endpoint, minGapMs } = this.options;
    const pauseMs = Math.max(minGapMs, frameGapMsOf(endpoint));
    const load = this.groups.reduce(
      (sum, group) => sum + group.load(pauseMs, (bytes) => this.link.cost.readMs(bytes)),
      0,
    );
    const fields = { target: targetOf(endpoint), loadPercent: Math.round(load * 100) };
    if (load > 1)
      this.context.log.warn(fields, 'The line is asked for more than it can give, and cycles will be missed');
    else if (load > 0) this.context.log.info(fields, 'The line has time for all that it is asked');
  }

  private readonly onAbort = (): void => {
    this.link.close();
    void this.stop();
  };

  private async end(): Promise<void> {
    this.stopping.abort();
    const done = new AbortController();
    const { signal } = this.context;
    const giveUp = () => done.abort();
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
    void Promise.all(this.runs).finally(giveUp);
    const timeoutMs = Math.max(this.options.timeoutMs, ...this.options.devices.map((device) => device.timeoutMs ?? 0));
    await sleep(timeoutMs + HAND_OVER_MS_MAX, done.signal);
    signal.removeEventListener('abort', giveUp);
    signal.removeEventListener('abort', this.onAbort);
    this.link.close();
    const told = new AbortController();
    const last = Promise.all(this.devices.map((device) => device.stop())).finally(() => told.abort());
    await Promise.race([last, sleep(HAND_OVER_MS_MAX, told.signal)]);
  }
}

/** By then every group of a second or so has been read several times. */
const LOAD_MEASURED_AFTER_MS = 10_000;
/** A log line stays one line that a person reads. */
const READS_TOLD_MAX = 20;
/** Long enough to cost nothing, short enough that a register added to the PLC shows up without a restart. */
const HOLE_RETEST_MS = 600_000;
/** How long a stop waits for the spool to take what was read; a spool that is full would hold it for ever. */
const HAND_OVER_MS_MAX = 5000;

/** Registers before bits: their answers come in more lengths. */
function largestRead(unit: number, blocks: readonly Extent[]): ReadRequest | undefined {
  const weight = ({ table, quantity }: Extent) =>
    isBitTable(table) ? quantity / 8 : quantity + REGISTERS_PER_READ_MAX;
  const [largest] = [...blocks].sort((a, b) => weight(b) - weight(a));
  return largest && { fc: READ_FUNCTION[largest.table], unit, address: largest.address, quantity: largest.quantity };
}
