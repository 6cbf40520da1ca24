import type { TestContext } from 'node:test';
import { systemClock } from '../../src/lib/clock.js';
import { type Log, silentLog } from '../../src/lib/log.js';
import type { DeviceStatus, Sample, SampleBatch } from '../../src/readers/driver.js';
import { ModbusDriver } from '../../src/readers/modbus/modbus-driver.js';
import type { ModbusDeviceOptions, ModbusOptions } from '../../src/readers/modbus/options.js';
import { until } from '../helpers/wait.js';
import { type Behaviour, FakeDevice } from './readers.fake-device.js';

/** Registers 10, 11 and 12 of unit 1, every 20 ms. */
export const press: ModbusDeviceOptions = {
  asset: 'press',
  unit: 1,
  order: 'ABCD',
  addressing: 'pdu0',
  groups: [{ everyMs: 20, tags: [10, 11, 12].map((n) => ({ name: `r${n}`, at: `hr:${n}`, type: 'u16' as const })) }],
};

export class Rig {
  readonly device: FakeDevice;
  readonly driver: ModbusDriver;
  readonly batches: SampleBatch[] = [];
  /** For each batch, which question was the last one that had reached the device. */
  readonly askedBy: number[] = [];
  readonly statuses: DeviceStatus[] = [];
  readonly warnings: string[] = [];
  readonly hurry = new AbortController();
  /** While set, nothing that is emitted becomes durable. */
  private held: { promise: Promise<void>; release: () => void } | undefined;

  private constructor(device: FakeDevice, options: Partial<ModbusOptions>) {
    this.device = device;
    const log: Log = {
      ...silentLog,
      child: () => log,
      debug() {},
      info() {},
      warn: (_, s) => this.warn(s),
      error: (_, s) => this.warn(s),
    };
    this.driver = new ModbusDriver(
      {
        endpoint: { kind: 'tcp', framing: 'mbap', host: '127.0.0.1', port: device.port },
        connectTimeoutMs: 10_000,
        timeoutMs: 50,
        retries: 1,
        minGapMs: 0,
        backoff: { minMs: 5, maxMs: 20 },
        devices: [press],
        ...options,
      },
      {
        emit: async (batch) => {
          this.batches.push(batch);
          this.askedBy.push(device.questions.length);
          await this.held?.promise;
        },
        status: (status) => this.statuses.push(status),
        clock: systemClock,
        log,
        signal: this.hurry.signal,
      },
    );
  }

  static async start(t: TestContext, options: Partial<ModbusOptions> = {}, behave?: Behaviour): Promise<Rig> {
    const rig = new Rig(await FakeDevice.listen(behave), options);
    t.after(async () => {
      rig.hurry.abort();
      await rig.driver.stop();
      await rig.device.close();
    });
    rig.driver.start();
    return rig;
  }

  hold(): void {
    let release = () => {};
    const promise = new Promise<void>((resolve) => {
      release = resolve;
    });
    this.held = { promise, release };
  }

  release(): void {
    this.held?.release();
    this.held = undefined;
  }

  samplesOf(tag: string): Sample[] {
    return this.batches.flatMap(({ samples }) => samples.filter((sample) => sample.tag === tag));
  }

  status(device = 'press'): DeviceStatus {
    const status = this.driver.status().devices.find((each) => each.device === device);
    if (!status) throw new Error(`No device ${device}`);
    return status;
  }

  /** Waits for `count` further samples of a tag, of any quality. */
  async more(tag: string, count = 3): Promise<void> {
    const before = this.samplesOf(tag).length;
    await until(`${count} more of ${tag}`, () => this.samplesOf(tag).length >= before + count);
  }

  private warn(sentence: string): void {
    this.warnings.push(sentence);
  }
}
