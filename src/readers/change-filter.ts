import type { Clock } from '../lib/clock.js';
import type { Sample, SampleBatch } from './driver.js';

/** When a value is worth a reading. */
export interface ReportRule {
  /** The least change of a number that is reported, in its own unit; 0: any change. */
  readonly deadband: number;
  /** The longest time without a reading of an unchanged value. */
  readonly heartbeatMs: number;
}

/** By device and tag; a tag without a rule is reported every time. */
export type ReportRules = ReadonlyMap<string, ReadonlyMap<string, ReportRule>>;

/** What was reported last of a tag that has a rule. */
interface Entry {
  readonly tag: string;
  readonly rule: ReportRule;
  /** The one that came after it last time. Tags come in the same order in every cycle, and looking there first is cheap. */
  next: Entry | undefined;
  value: Sample['value'];
  quality: number;
  /** Before the first report: so long ago that every heartbeat is due. */
  mono: number;
}

/**
 * Report by exception. A value is compared with the one that was reported last, not with the one read last, or a slow drift
 * would never be seen. A change of the quality, the first value of all and the first value after a hole are always reported.
 */
export class ChangeFilter {
  private readonly clock: Clock;
  private readonly devices: ReadonlyMap<string, ReadonlyMap<string, Entry>>;

  constructor(rules: ReportRules, clock: Clock) {
    this.clock = clock;
    const entry = (tag: string, rule: ReportRule): Entry => ({
      tag,
      rule,
      next: undefined,
      value: null,
      quality: Number.NaN,
      mono: -Infinity,
    });
    this.devices = new Map(
      [...rules].map(([device, tags]) => [device, new Map([...tags].map(([tag, rule]) => [tag, entry(tag, rule)]))]),
    );
  }

  /** What is to be reported of a batch; undefined when nothing is. */
  pass(batch: SampleBatch): SampleBatch | undefined {
    const entries = this.devices.get(batch.device);
    if (!entries || entries.size === 0) return batch;
    const mono = this.clock.mono();
    // After a hole nobody knows whether the last value still held in it. One message holds the whole group, or a consumer
    // would have to keep the rest of it in mind.
    const all = batch.gap !== undefined || (batch.message !== undefined && hasNews(batch.samples, entries, mono));
    const samples: Sample[] = [];
    let last: Entry | undefined;
    for (const sample of batch.samples) {
      const entry: Entry | undefined = last?.next?.tag === sample.tag ? last.next : entries.get(sample.tag);
      if (last) last.next = entry;
      last = entry;
      if (entry && !all && !isNews(sample, entry, mono)) continue;
      samples.push(sample);
      if (!entry) continue;
      entry.value = sample.value;
      entry.quality = sample.quality;
      entry.mono = mono;
    }
    return samples.length > 0 || batch.gap || batch.tagGaps ? { ...batch, samples } : undefined;
  }
}

function hasNews(samples: readonly Sample[], entries: ReadonlyMap<string, Entry>, mono: number): boolean {
  return samples.some((sample) => {
    const entry = entries.get(sample.tag);
    return !entry || isNews(sample, entry, mono);
  });
}

function isNews({ value, quality }: Sample, last: Entry, mono: number): boolean {
  const { deadband, heartbeatMs } = last.rule;
  if (mono - last.mono >= heartbeatMs || quality !== last.quality || typeof value !== typeof last.value) return true;
  if (typeof value === 'number' && deadband > 0) return Math.abs(value - (last.value as number)) >= deadband;
  if (typeof value === 'bigint' && deadband > 0) return Math.abs(Number(value - (last.value as bigint))) >= deadband;
  return value !== last.value;
}
