import type { DataValue } from 'node-opcua-client';
import type { Millis } from '../../model/ids.js';
import { DeviceRecord } from '../device-record.js';
import type { DriverContext, Sample, SampleGap, TagGap } from '../driver.js';
import { BAD_CONFIG, BAD_NOT_CONNECTED } from '../quality.js';
import type { OpcuaDeviceOptions, OpcuaGroupOptions, OpcuaTagOptions } from './options.js';
import { Outbox } from './outbox.js';
import { stampOf } from './stamps.js';
import { convert } from './values.js';

export interface Tag extends OpcuaTagOptions {
  /** The time of the last reading, which the next one must be after. */
  lastTs: Millis | undefined;
  last: Sample | undefined;
  lastMono: number;
}

export interface Group extends Omit<OpcuaGroupOptions, 'tags'> {
  readonly tags: readonly Tag[];
}

interface Moment {
  readonly samples: Sample[];
  readonly gaps: TagGap[];
}

/**
 * One asset in a server: turns values as they come into batches, one for each moment, and keeps what is known of the asset.
 * Whatever was missed stands as a gap before the first batch after it.
 */
export class OpcuaDevice {
  readonly asset: string;
  readonly record: DeviceRecord;
  readonly groups: readonly Group[];
  private readonly context: DriverContext;
  private readonly outbox: Outbox;
  private readonly hasSubscriptions: boolean;
  private away = false;
  private lastPutAt: Millis;
  private skipped: { readonly from: Millis; missed: number } | undefined;

  constructor({ asset, groups }: OpcuaDeviceOptions, context: DriverContext) {
    this.asset = asset;
    this.context = context;
    this.record = new DeviceRecord(asset, context, () => 0);
    this.outbox = new Outbox(context.emit);
    this.groups = groups.map((group) => ({
      ...group,
      tags: group.tags.map((tag) => ({ ...tag, lastTs: undefined, last: undefined, lastMono: 0 })),
    }));
    this.hasSubscriptions = groups.some(({ mode }) => mode === 'subscribe');
    this.lastPutAt = context.clock.now();
  }

  get tags(): Tag[] {
    return this.groups.flatMap(({ tags }) => tags);
  }

  tag(name: string): Tag | undefined {
    return this.tags.find((tag) => tag.name === name);
  }

  /** Values in the order in which the server gave them. */
  take(values: readonly { readonly tag: Tag; readonly value: DataValue }[]): void {
    const arrivedAt = this.context.clock.now();
    this.record.heard(arrivedAt);
    this.away = false;
    const moments = new Map<Millis, Moment>();
    for (const { tag, value } of values) {
      const { cause, ...converted } = convert(value);
      const ts = stampOf(value, arrivedAt, tag.lastTs);
      const moment = moments.get(ts) ?? { samples: [], gaps: [] };
      moments.set(ts, moment);
      if (value.statusCode.hasOverflowBit && tag.lastTs !== undefined)
        moment.gaps.push({ ...UNCOUNTED, tag: tag.name, from: tag.lastTs, to: ts, reason: 'polls-skipped' });
      // Without a value there is no type either; that of the last one keeps the metric in one column.
      const type = converted.value === null ? (tag.last?.type ?? converted.type) : converted.type;
      moment.samples.push(this.note(tag, ts, { ...converted, tag: tag.name, type }));
      if (cause === undefined) this.record.markGood([tag]);
      else this.record.markBad(tag, cause);
    }
    for (const [ts, moment] of [...moments].sort(([a], [b]) => a - b)) this.put(ts, moment, arrivedAt);
    this.record.comeBack();
    this.record.refresh();
  }

  /** The server answers, whatever it has to say about the tags. */
  answered(rttMs: number): void {
    this.record.answered(this.context.clock.now(), rttMs);
    this.away = false;
    this.record.comeBack();
    this.record.refresh();
  }

  /** The server does not give this tag, and will not as long as the session lasts. */
  refuse(tag: Tag, cause: string): void {
    if (!this.record.markBad(tag, cause)) return;
    const now = this.context.clock.now();
    const ts = Math.max(now, (tag.lastTs ?? 0) + 1) as Millis;
    this.put(ts, { samples: [this.none(tag, ts, BAD_CONFIG)], gaps: [] }, now);
    this.record.refresh();
  }

  /** Nothing is heard of the server any more: told once for every tag, and a gap from here on. */
  goAway(cause: string, quality = BAD_NOT_CONNECTED): void {
    this.record.goOffline(cause);
    if (this.away) return;
    this.away = true;
    const { tags } = this;
    const ts = Math.max(this.context.clock.now(), ...tags.map(({ lastTs = 0 }) => lastTs + 1)) as Millis;
    const samples = tags.map((tag) => this.none(tag, ts, quality));
    // Not by `put`: what is bad now does not end the hole that begins now.
    if (this.outbox.hasRoom(samples.length)) this.outbox.put({ device: this.asset, ts, samples });
  }

  /** Says again what a subscription, being alive, vouches for: the value has not changed. */
  heartbeat(serverTime: DataValue): void {
    const now = this.context.clock.now();
    const mono = this.context.clock.mono();
    for (const { mode, heartbeatMs, tags } of this.groups) {
      if (mode !== 'subscribe') continue;
      for (const tag of tags) {
        if (!tag.last || this.record.isBad(tag) || mono - tag.lastMono < heartbeatMs) continue;
        const ts = stampOf(serverTime, now, tag.lastTs);
        this.put(ts, { samples: [this.note(tag, ts, tag.last)], gaps: [] }, now);
      }
    }
  }

  /** Resolves when all that was read is durable. */
  idle(): Promise<void> {
    return this.outbox.idle();
  }

  private put(ts: Millis, { samples, gaps }: Moment, arrivedAt: Millis): void {
    if (!this.outbox.hasRoom(samples.length)) {
      this.skipped ??= { from: this.lastPutAt, missed: 0 };
      this.skipped.missed += samples.length;
      return;
    }
    const gap = this.takeGap(arrivedAt);
    this.lastPutAt = arrivedAt;
    this.outbox.put({
      device: this.asset,
      ts,
      samples,
      ...(gap ? { gap } : {}),
      ...(gaps.length > 0 ? { tagGaps: gaps } : {}),
    });
  }

  private takeGap(to: Millis): SampleGap | undefined {
    const gap = this.record.takeGap(to);
    const { skipped } = this;
    this.skipped = undefined;
    if (gap) return this.hasSubscriptions ? { ...gap, uncounted: true } : gap;
    return skipped && { ...skipped, to, cycles: 0, reason: 'polls-skipped' };
  }

  private none(tag: Tag, ts: Millis, quality: number): Sample {
    return this.note(tag, ts, { tag: tag.name, type: tag.last?.type ?? 'f', value: null, quality });
  }

  private note(tag: Tag, ts: Millis, sample: Sample): Sample {
    tag.lastTs = ts;
    tag.last = sample;
    tag.lastMono = this.context.clock.mono();
    return sample;
  }
}

const UNCOUNTED = { missed: 0, uncounted: true } as const;
