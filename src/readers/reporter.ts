import { setMaxListeners } from 'node:events';
import { Backoff } from '../lib/backoff.js';
import { type Clock, sleep } from '../lib/clock.js';
import { messageOf } from '../lib/errors.js';
import { type Log, RateLimit } from '../lib/log.js';
import type { Gap } from '../model/gap.js';
import type { Millis } from '../model/ids.js';
import type { Message } from '../model/message.js';
import type { Json, Reading, ReadingType } from '../model/reading.js';
import { type DeviceStatus, GAP_METRIC, type Sample, type SampleBatch, type SampleGap, type TagGap } from './driver.js';

/** A message for the broker, and what identifies it in the spool if it is a reading or a gap. */
export interface Outgoing {
  readonly message: Message;
  readonly identity: {
    readonly type: ReadingType | 'g';
    readonly asset: string;
    readonly metric: string | null;
    readonly deviceTs: Millis;
  } | null;
}

/** Where messages go: one call is one unit, all of it durable or none. */
export interface Sink {
  /** Resolves when everything is durable. */
  publish(outgoing: readonly Outgoing[]): Promise<void>;
}

export interface ReporterOptions {
  readonly sink: Sink;
  readonly topicOf: (asset: string, metric: string) => string;
  readonly statusTopicOf: (asset: string) => string;
  readonly encodeReading: (reading: Reading) => Uint8Array;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the tries to hand over. */
  readonly signal: AbortSignal;
}

/**
 * Turns what drivers read into messages: one retained reading per sample, so that an HMI that connects later has the last
 * value at once; a gap record before the first readings after a hole; and a retained status per device.
 */
export class Reporter {
  private readonly options: ReporterOptions;
  private readonly complaints = new RateLimit();
  private readonly statuses = new Map<string, StatusTopic>();

  constructor(options: ReporterOptions) {
    this.options = options;
    // Every batch that waits for a failing sink listens to it.
    setMaxListeners(0, options.signal);
  }

  /**
   * Resolves when the batch is durable. While the sink fails it tries again, since what was read cannot be read again;
   * rejects only when `signal` aborts first.
   */
  async emit(batch: SampleBatch): Promise<void> {
    const { device, gap, tagGaps = [], samples } = batch;
    const outgoing = [
      ...(gap ? [this.gap(device, gap)] : []),
      ...tagGaps.map((hole) => this.tagGap(device, hole)),
      ...(batch.message === undefined ? samples.map((sample) => this.reading(batch, sample)) : [this.together(batch)]),
    ];
    const backoff = new Backoff(RETRY_BACKOFF);
    for (;;) {
      try {
        return await this.options.sink.publish(outgoing);
      } catch (error) {
        this.complain(batch.device, error);
        await sleep(backoff.next(), this.options.signal);
        if (this.options.signal.aborted) throw error;
      }
    }
  }

  /** Publishes a change of the state at once, and everything else at most every ten seconds. Never waits. */
  status(status: DeviceStatus): void {
    const { device } = status;
    let topic = this.statuses.get(device);
    if (!topic) {
      topic = { shown: undefined, shownMono: 0, waiting: undefined, publishing: undefined };
      this.statuses.set(device, topic);
    }
    const { shown } = topic;
    const due = this.options.clock.mono() - topic.shownMono >= STATUS_EVERY_MS;
    if (!due && shown?.state === status.state && shown.cause === status.cause) return;
    topic.shown = status;
    topic.shownMono = this.options.clock.mono();
    topic.waiting = status;
    topic.publishing ??= this.publishStatuses(topic);
  }

  /** Resolves when the last statuses are published, or could not be. Close the drivers first. */
  async close(): Promise<void> {
    await Promise.all([...this.statuses.values()].map((topic) => topic.publishing));
  }

  /** One publish at a time and the newest status next, so that a slow sink gathers no queue. */
  private async publishStatuses(topic: StatusTopic): Promise<void> {
    for (let status = topic.waiting; status; status = topic.waiting) {
      topic.waiting = undefined;
      const { device, ...payload } = status;
      const message = retained(this.options.statusTopicOf(device), json(payload));
      try {
        await this.options.sink.publish([{ message, identity: null }]);
      } catch (error) {
        this.complain(device, error);
      }
    }
    topic.publishing = undefined;
  }

  private reading(
    { device, ts }: SampleBatch,
    { tag, type, value, quality }: SampleBatch['samples'][number],
  ): Outgoing {
    const { topicOf, encodeReading } = this.options;
    const payload = encodeReading({ asset: device, metric: tag, ts, type, value, quality });
    return {
      message: retained(topicOf(device, tag), payload),
      identity: { type, asset: device, metric: tag, deviceTs: ts },
    };
  }

  /** All samples as one JSON value, whose quality is the worst of theirs. */
  private together({ device, ts, samples, message = '' }: SampleBatch): Outgoing {
    const value = Object.fromEntries(samples.map((sample) => [sample.tag, jsonValue(sample.value)]));
    const quality = Math.min(...samples.map((sample) => sample.quality));
    const payload = this.options.encodeReading({ asset: device, metric: message, ts, type: 'j', value, quality });
    return {
      message: retained(this.options.topicOf(device, message), payload),
      identity: { type: 'j', asset: device, metric: message, deviceTs: ts },
    };
  }

  private gap(device: string, { from, to, missed, uncounted, cycles, reason }: SampleGap): Outgoing {
    return this.gapOf(device, null, {
      from,
      to,
      ...(uncounted ? {} : { count: missed }),
      reason,
      detail: uncounted ? 'the number of changes is not known' : `${cycles} poll cycles`,
    });
  }

  private tagGap(
    device: string,
    { tag, from, to, missed, uncounted, reason = 'device-unreachable' }: TagGap,
  ): Outgoing {
    const detail =
      reason === 'polls-skipped'
        ? `the queue for ${tag} in the device overflowed`
        : `${tag} was not given although the device was there`;
    return this.gapOf(device, tag, { from, to, ...(uncounted ? {} : { count: missed }), reason, detail });
  }

  private gapOf(device: string, metric: string | null, gap: Omit<Gap, 'asset' | 'metric'>): Outgoing {
    const topic = this.options.topicOf(device, GAP_METRIC);
    return {
      message: { topic, payload: json(gap), qos: 1, retain: false, props: null },
      identity: { type: 'g', asset: device, metric, deviceTs: gap.to },
    };
  }

  private complain(device: string, error: unknown): void {
    const held = this.complaints.pass(device);
    if (held !== undefined)
      this.options.log.error({ device, detail: messageOf(error), held }, 'A device report could not be handed over');
  }
}

interface StatusTopic {
  shown: DeviceStatus | undefined;
  shownMono: number;
  waiting: DeviceStatus | undefined;
  publishing: Promise<void> | undefined;
}

const STATUS_EVERY_MS = 10_000;
/** The sink is in this process: it is back within seconds, or it waits for an operator. */
const RETRY_BACKOFF = { minMs: 100, maxMs: 5000 };

/** JSON numbers are doubles: an integer that none can hold is written out as text. */
function jsonValue(value: Sample['value']): Json {
  if (typeof value !== 'bigint') return value;
  return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
}

const json = (value: object): Buffer => Buffer.from(JSON.stringify(value));

const retained = (topic: string, payload: Uint8Array): Message => ({
  topic,
  payload,
  qos: 1,
  retain: true,
  props: null,
});
