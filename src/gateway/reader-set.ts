/** The readers of a gateway: each configured link with its driver, and one reporter that hands over what they read. */
import type { ReaderConfig } from '../config/reader-schema.js';
import type { Clock } from '../lib/clock.js';
import type { Log } from '../lib/log.js';
import type { Millis } from '../model/ids.js';
import type { ReaderStatus } from '../model/status.js';
import type { Driver, SampleBatch } from '../readers/driver.js';
import { parseEndpoint } from '../readers/modbus/endpoint.js';
import { ModbusDriver } from '../readers/modbus/modbus-driver.js';
import type { ModbusOptions } from '../readers/modbus/options.js';
import { Reporter, type Sink } from '../readers/reporter.js';
import { encodeReadingPayload } from '../wire/reading.js';
import { TopicTemplate } from '../wire/topic-template.js';

interface Entry {
  readonly url: string;
  readonly driver: Driver;
  readonly reporter: Reporter;
  /** Per asset: what has been handed over durably. */
  readonly counts: Map<string, { readings: number; gaps: number }>;
}

export class ReaderSet {
  private readonly entries: readonly Entry[];
  private readonly giveUp = new AbortController();

  /** Throws `config.invalid` when a driver does not accept its part of the config. */
  constructor(configs: readonly ReaderConfig[], sink: Sink, clock: Clock, log: Log) {
    this.entries = configs.map((config) => this.entry(config, sink, clock, log));
  }

  start(): void {
    for (const { driver } of this.entries) driver.start();
  }

  /** Ends the polls in progress and hands over what they read; when `hurry` aborts, what is in progress is given up. */
  async stop(hurry: AbortSignal): Promise<void> {
    const abort = () => this.giveUp.abort();
    if (hurry.aborted) abort();
    hurry.addEventListener('abort', abort, { once: true });
    await Promise.all(this.entries.map(({ driver }) => driver.stop()));
    await Promise.all(this.entries.map(({ reporter }) => reporter.close()));
    hurry.removeEventListener('abort', abort);
  }

  status(): ReaderStatus[] {
    return this.entries.flatMap(({ url, driver, counts }) =>
      driver.status().devices.map((device) => ({
        asset: device.device,
        url,
        state: device.lastOkAt === null && device.state === 'offline' && !device.cause ? 'starting' : device.state,
        since: device.since,
        cause: device.cause ?? null,
        lastOkAt: device.lastOkAt,
        readings: counts.get(device.device)?.readings ?? 0,
        rttMsP50: device.rttMs?.p50 ?? null,
        rttMsP99: device.rttMs?.p99 ?? null,
        timeouts: device.timeouts,
        exceptions: device.exceptions,
        lateAnswers: device.lateAnswers,
        missedCycles: device.missedCycles,
        gaps: counts.get(device.device)?.gaps ?? 0,
      })),
    );
  }

  private entry(config: ReaderConfig, sink: Sink, clock: Clock, log: Log): Entry {
    const topic = TopicTemplate.parse(config.topic);
    const statusTopic = TopicTemplate.parse(config.statusTopic);
    const reporter = new Reporter({
      sink,
      topicOf: (asset, metric) => topic.format({ asset, metric }),
      statusTopicOf: (asset) => statusTopic.format({ asset }),
      encodeReading: encodeReadingPayload,
      clock,
      log,
      signal: this.giveUp.signal,
    });
    const counts: Entry['counts'] = new Map();
    const emit = async (batch: SampleBatch) => {
      await reporter.emit(batch);
      const count = counts.get(batch.device) ?? { readings: 0, gaps: 0 };
      count.readings += batch.samples.length;
      if (batch.gap) count.gaps++;
      counts.set(batch.device, count);
    };
    const context = { emit, status: reporter.status.bind(reporter), clock, log, signal: this.giveUp.signal };
    return { url: config.url, driver: new ModbusDriver(modbusOptions(config), context), reporter, counts };
  }
}

function modbusOptions(config: ReaderConfig): ModbusOptions {
  return {
    endpoint: parseEndpoint(config.url, config.serial),
    connectTimeoutMs: config.connectTimeout,
    timeoutMs: config.timeout,
    retries: config.retries,
    minGapMs: config.minGap,
    pauseAfterConnectMs: config.pauseAfterConnect,
    acceptAnyUnit: config.acceptAnyUnit,
    localEcho: config.localEcho,
    backoff: { minMs: config.backoff.min, maxMs: config.backoff.max },
    devices: config.devices.map(({ asset, unit, order, addressing, groups }) => ({
      asset,
      unit,
      order,
      addressing,
      groups: groups.map(({ every, tags }) => ({
        everyMs: every,
        tags: tags.map(({ name, at, type, order: tagOrder, scale, offset, length }) => ({
          name,
          at,
          type,
          ...(tagOrder === undefined ? {} : { order: tagOrder }),
          ...(scale === undefined ? {} : { scale }),
          ...(offset === undefined ? {} : { offset }),
          ...(length === undefined ? {} : { length }),
        })),
      })),
    })),
  };
}

/** The gap messages of every asset for the time in which the gateway itself was not running. */
export function downtimeGaps(
  configs: readonly ReaderConfig[],
  from: Millis,
  to: Millis,
): Parameters<Sink['publish']>[0] {
  return configs.flatMap((config) => {
    const topic = TopicTemplate.parse(config.topic);
    return config.devices.map(({ asset }) => ({
      message: {
        topic: topic.format({ asset, metric: 'gap' }),
        payload: Buffer.from(JSON.stringify({ from, to, reason: 'gateway-down' })),
        qos: 1 as const,
        retain: false,
        props: null,
      },
      identity: { type: 'g' as const, asset, metric: null, deviceTs: to },
    }));
  });
}
