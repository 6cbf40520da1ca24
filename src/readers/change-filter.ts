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

interface Reported {
  value: Sample['value'];
  quality: number;
  mono: number;
}

/**
 * Report by exception. A value is compared with the one that was reported last, not with the one read last, or a slow drift
 * would never be seen. A change of the quality, the first value of all and the first value after a hole are always reported.
 */
export class ChangeFilter {
  private readonly rules: ReportRules;
  private readonly clock: Clock;
  private readonly reported = new Map<string, Map<string, Reported>>();

  constructor(rules: ReportRules, clock: Clock) {
    this.rules = rules;
    this.clock = clock;
  }

  /** What is to be reported of a batch; undefined when nothing is. */
  pass(batch: SampleBatch): SampleBatch | undefined {
    const rules = this.rules.get(batch.device);
    if (!rules || rules.size === 0) return batch;
    let reported = this.reported.get(batch.device);
    if (!reported) {
      reported = new Map();
      this.reported.set(batch.device, reported);
    }
    const mono = this.clock.mono();
    // After a hole nobody knows whether the last value still held in it.
    const all = batch.gap !== undefined;
    const samples: Sample[] = [];
    for (const sample of batch.samples) {
      const rule = rules.get(sample.tag);
      const last = reported.get(sample.tag);
      if (rule && last && !all && mono - last.mono < rule.heartbeatMs && !hasChanged(sample, last, rule.deadband))
        continue;
      samples.push(sample);
    }
    if (samples.length === 0 && !batch.tagGaps) return undefined;
    // One message holds the whole group, or a consumer would have to keep the rest of it in mind.
    const sent = batch.message === undefined ? samples : batch.samples;
    for (const sample of sent) remember(reported, sample, mono);
    return { ...batch, samples: sent };
  }
}

/** In place where there is an entry, since a new one for every change is work for the garbage collector. */
function remember(reported: Map<string, Reported>, { tag, value, quality }: Sample, mono: number): void {
  const entry = reported.get(tag);
  if (!entry) {
    reported.set(tag, { value, quality, mono });
    return;
  }
  entry.value = value;
  entry.quality = quality;
  entry.mono = mono;
}

function hasChanged(sample: Sample, last: Reported, deadband: number): boolean {
  const { value, quality } = sample;
  if (quality !== last.quality || typeof value !== typeof last.value) return true;
  if (typeof value === 'number' && deadband > 0) return Math.abs(value - (last.value as number)) >= deadband;
  if (typeof value === 'bigint' && deadband > 0) return Math.abs(Number(value - (last.value as bigint))) >= deadband;
  return value !== last.value;
}
