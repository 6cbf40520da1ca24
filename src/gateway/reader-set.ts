/** The readers of a gateway: each configured link with its driver, and one reporter that hands over what they read. */
import { join } from 'node:path';
import type { ReaderConfig } from '../config/reader-schema.js';
import { assertNever } from '../lib/assert.js';
import type { Clock } from '../lib/clock.js';
import type { Log } from '../lib/log.js';
import type { Millis } from '../model/ids.js';
import type { Message } from '../model/message.js';
import type { ReaderStatus } from '../model/status.js';
import { ChangeFilter, type ReportRules } from '../readers/change-filter.js';
import { CommandDesk, type CommandDeskOptions } from '../readers/command-desk.js';
import type { CommandMemory } from '../readers/command-memory.js';
import type { Driver, DriverContext, SampleBatch } from '../readers/driver.js';
import { ModbusDriver } from '../readers/modbus/modbus-driver.js';
import { OpcuaDriver } from '../readers/opcua/opcua-driver.js';
import { loadStack } from '../readers/opcua/stack.js';
import { Reporter, type Sink } from '../readers/reporter.js';
import { encodeReadingPayload } from '../wire/reading.js';
import { TopicTemplate } from '../wire/topic-template.js';
import { modbusOptions, reportRules } from './modbus-options.js';
import { opcuaOptions, opcuaRules } from './opcua-options.js';

interface Entry {
  readonly url: string;
  readonly driver: Driver;
  readonly reporter: Reporter;
  readonly assets: ReadonlySet<string>;
  readonly commands: { readonly topic: TopicTemplate; readonly desk: CommandDesk } | undefined;
  /** Per asset: what has been handed over durably. */
  readonly counts: Map<string, { readings: number; gaps: number }>;
}

export class ReaderSet {
  private readonly entries: readonly Entry[];
  private readonly dataDir: string;
  private readonly giveUp = new AbortController();

  /** Throws `config.invalid` when a driver does not accept its part of the config. */
  constructor(
    configs: readonly ReaderConfig[],
    dataDir: string,
    sink: Sink,
    memory: CommandMemory,
    clock: Clock,
    log: Log,
  ) {
    this.dataDir = dataDir;
    this.entries = configs.map((config) => this.entry(config, sink, memory, clock, log));
  }

  start(): void {
    for (const { driver, commands } of this.entries) {
      driver.start();
      commands?.desk.start();
    }
  }

  /** Whether any message can be a command, so that the others need not be looked at. */
  get takesCommands(): boolean {
    return this.entries.some(({ commands }) => commands);
  }

  /** A message of the plant that is durable: carried out if it is a command to a reader that takes any. */
  offer({ topic, payload, retain }: Message): void {
    const takers = this.entries.flatMap(({ assets, commands }) => {
      const { asset, metric } = commands?.topic.match(topic) ?? {};
      if (!commands || asset === undefined || metric === undefined) return [];
      return [{ desk: commands.desk, isOwner: assets.has(asset), command: { asset, metric, payload, retain } }];
    });
    // Several readers may share a topic. Whose asset it is answers; nobody's is refused once.
    const taker = takers.find(({ isOwner }) => isOwner) ?? takers[0];
    taker?.desk.offer(taker.command);
  }

  /** Ends the polls in progress and hands over what they read; when `hurry` aborts, what is in progress is given up. */
  async stop(hurry: AbortSignal): Promise<void> {
    const abort = () => this.giveUp.abort();
    if (hurry.aborted) abort();
    hurry.addEventListener('abort', abort, { once: true });
    await Promise.all(this.entries.map(({ commands }) => commands?.desk.close(hurry)));
    await Promise.all(this.entries.map(({ driver }) => driver.stop()));
    await Promise.all(this.entries.map(({ reporter }) => reporter.close()));
    hurry.removeEventListener('abort', abort);
  }

  status(): ReaderStatus[] {
    return this.entries.flatMap(({ url, driver, counts }) => {
      const { link, devices } = driver.status();
      const { state, cause = null, connects } = link;
      return devices.map((device) => ({
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
        link: { state, cause, connects },
        gaps: counts.get(device.device)?.gaps ?? 0,
      }));
    });
  }

  private entry(config: ReaderConfig, sink: Sink, memory: CommandMemory, clock: Clock, log: Log): Entry {
    const topicOf = topicsOf(config);
    const statusTopic = TopicTemplate.parse(config.statusTopic);
    const reporter = new Reporter({
      sink,
      topicOf,
      statusTopicOf: (asset) => statusTopic.format({ asset }),
      encodeReading: encodeReadingPayload,
      clock,
      log,
      signal: this.giveUp.signal,
    });
    const counts: Entry['counts'] = new Map();
    const filter = new ChangeFilter(rulesOf(config), clock);
    const emit = async (read: SampleBatch) => {
      const batch = filter.pass(read);
      if (!batch) return;
      await reporter.emit(batch);
      const count = counts.get(batch.device) ?? { readings: 0, gaps: 0 };
      count.readings += batch.samples.length;
      count.gaps += (batch.gap ? 1 : 0) + (batch.tagGaps?.length ?? 0);
      counts.set(batch.device, count);
    };
    const context = { emit, status: reporter.status.bind(reporter), clock, log, signal: this.giveUp.signal };
    const driver = this.driver(config, context);
    const assets = new Set(driver.status().devices.map(({ device }) => device));
    const commands = config.commands && commandsOf(config.commands, { driver, assets, memory, sink, clock, log });
    return { url: config.url, driver, reporter, assets, commands, counts };
  }

  private driver(config: ReaderConfig, context: DriverContext): Driver {
    switch (config.type) {
      case 'modbus':
        return new ModbusDriver(modbusOptions(config), context);
      case 'opcua':
        return new OpcuaDriver(opcuaOptions(config, join(this.dataDir, 'opcua')), context);
      default:
        return assertNever(config, 'reader');
    }
  }
}

/** Loads what the readers need and a gateway without them does not. Throws `config.invalid` when it is not installed. */
export async function loadProtocols(configs: readonly ReaderConfig[], log: Log): Promise<void> {
  if (configs.some(({ type }) => type === 'opcua')) await loadStack(log);
}

function rulesOf(config: ReaderConfig): ReportRules {
  switch (config.type) {
    case 'modbus':
      return reportRules(config);
    case 'opcua':
      return opcuaRules(config);
    default:
      return assertNever(config, 'reader');
  }
}

function commandsOf(
  { topic, resultTopic, ttlMax }: NonNullable<ReaderConfig['commands']>,
  desk: Omit<CommandDeskOptions, 'resultTopicOf' | 'ttlMaxMs'>,
): Entry['commands'] {
  const results = TopicTemplate.parse(resultTopic);
  const resultTopicOf = (asset: string, metric: string) => results.format({ asset, metric });
  return { topic: TopicTemplate.parse(topic), desk: new CommandDesk({ ...desk, resultTopicOf, ttlMaxMs: ttlMax }) };
}

/** The gap messages of every asset for the time in which the gateway itself was not running. */
export function downtimeGaps(
  configs: readonly ReaderConfig[],
  from: Millis,
  to: Millis,
): Parameters<Sink['publish']>[0] {
  return configs.flatMap((config) => {
    const topicOf = topicsOf(config);
    return config.devices.map(({ asset }) => ({
      message: {
        topic: topicOf(asset, 'gap'),
        payload: Buffer.from(JSON.stringify({ from, to, reason: 'gateway-down' })),
        qos: 1 as const,
        retain: false,
        props: null,
      },
      identity: { type: 'g' as const, asset, metric: null, deviceTs: to },
    }));
  });
}

/** Formatted once for each metric: a template is looked through each time, and there may be 100 000 readings a second. */
function topicsOf({ topic, devices }: ReaderConfig): (asset: string, metric: string) => string {
  const template = TopicTemplate.parse(topic);
  const labels = new Map(devices.map((device) => [device.asset, device.labels]));
  const known = new Map<string, Map<string, string>>();
  return (asset, metric) => {
    const topics = known.get(asset) ?? new Map<string, string>();
    known.set(asset, topics);
    const text = topics.get(metric) ?? template.format({ ...labels.get(asset), asset, metric });
    topics.set(metric, text);
    return text;
  };
}
