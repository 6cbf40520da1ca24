/** A reader's config as the Modbus driver and the report filter take it. */
import type { DeviceConfig } from '../config/modbus-device-schema.js';
import type { TagConfig } from '../config/modbus-tag-schema.js';
import type { ModbusReaderConfig } from '../config/reader-schema.js';
import type { ReportRule, ReportRules } from '../readers/change-filter.js';
import { parseEndpoint } from '../readers/modbus/endpoint.js';
import type { InvalidValues, ModbusDeviceOptions, ModbusOptions, ModbusTagOptions } from '../readers/modbus/options.js';

export function modbusOptions(config: ModbusReaderConfig): ModbusOptions {
  return {
    endpoint: parseEndpoint(config.url, config.serial),
    connectTimeoutMs: config.connectTimeout,
    timeoutMs: config.timeout,
    retries: config.retries,
    minGapMs: config.minGap,
    pauseAfterConnectMs: config.pauseAfterConnect,
    acceptAnyUnit: config.acceptAnyUnit,
    localEcho: config.localEcho,
    closeAfterPoll: config.closeAfterPoll,
    backoff: { minMs: config.backoff.min, maxMs: config.backoff.max },
    devices: config.devices.map(deviceOptions),
  };
}

/** Only of tags that are reported by exception. */
export function reportRules({ devices }: Pick<ModbusReaderConfig, 'devices'>): ReportRules {
  return new Map(
    devices.map(({ asset, groups }) => [
      asset,
      new Map(
        groups
          .filter(({ report }) => report === 'change')
          .flatMap(({ tags, heartbeat }) => tags.map((tag): [string, ReportRule] => [tag.name, rule(tag, heartbeat)])),
      ),
    ]),
  );
}

function rule({ deadband = 0, range }: TagConfig, heartbeatMs: number): ReportRule {
  if (typeof deadband === 'number') return { deadband, heartbeatMs };
  const [from, to] = range?.eng ?? [0, 0];
  return { deadband: (Math.abs(to - from) * Number.parseFloat(deadband)) / 100, heartbeatMs };
}

function deviceOptions({
  asset,
  unit,
  timeout,
  retries,
  minGap,
  order,
  addressing,
  invalid,
  limits,
  quirks,
  groups,
}: DeviceConfig): ModbusDeviceOptions {
  return {
    asset,
    unit,
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
    ...(retries === undefined ? {} : { retries }),
    ...(minGap === undefined ? {} : { minGapMs: minGap }),
    order,
    addressing,
    ...(invalid === undefined ? {} : { invalid: invalidValues(invalid) }),
    limits: {
      registersMax: limits.registers,
      bitsMax: limits.bits,
      gap: limits.gap,
      oneRequestPerTag: quirks.oneRequestPerTag,
      coilsFromZero: quirks.coilsFromZero,
      writeMultiple: quirks.writeMultiple,
      readWrite: quirks.readWrite,
    },
    groups: groups.map(({ every, message, tags }) => ({
      everyMs: every,
      ...(message === undefined ? {} : { message }),
      tags: tags.map(tagOptions),
    })),
  };
}

function tagOptions({ enum: names, invalid, deadband, write, ...tag }: TagConfig): ModbusTagOptions {
  return present({
    ...tag,
    names,
    invalid: invalid && invalidValues(invalid),
    write: write && present(write),
  });
}

/** Whole numbers in quotes are exact however long they are. */
function invalidValues(values: NonNullable<TagConfig['invalid']>): InvalidValues {
  if (values === 'sunspec') return values;
  return values.map((value) => (typeof value === 'number' ? value : wholeNumber(value)));
}

function wholeNumber(text: string): bigint {
  return text.startsWith('-') ? -BigInt(text.slice(1)) : BigInt(text);
}

/** Without the keys that have no value, which is what "optional" means to the compiler here. */
function present<T extends object>(object: T): Present<T> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Present<T>;
}

type Present<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};
