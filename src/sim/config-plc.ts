import type { Buffer } from 'node:buffer';
import { Closer } from '../lib/closer.js';
import { HoldfastError } from '../lib/errors.js';
import { type ByteOrder, type CharLayout, isBitTable, registersOf, type Table, type TagType } from '../model/modbus.js';
import { parseModbusAddress } from '../model/modbus-address.js';
import { ModbusMemory } from './modbus-memory.js';
import { ModbusServer, type PlcFaults } from './modbus-server.js';
import { bitAt, registersAt, type TagShape } from './tag-values.js';

/** A device as a checked config has it. */
export interface PlannedDevice {
  readonly asset: string;
  readonly unit: number;
  readonly order: ByteOrder;
  readonly invalid?: PlannedInvalid | undefined;
  readonly groups: readonly { readonly tags: readonly PlannedTag[] }[];
}

export interface PlannedTag {
  readonly name: string;
  readonly at: string;
  readonly type: TagType;
  readonly order?: ByteOrder | undefined;
  readonly length?: number | undefined;
  readonly chars?: CharLayout | undefined;
  readonly enum?: Readonly<Record<string, string>> | undefined;
  readonly range?: { readonly raw: readonly [number, number] } | undefined;
  readonly invalid?: PlannedInvalid | undefined;
}

type PlannedInvalid = 'sunspec' | readonly (number | string)[];

interface Place {
  readonly memory: ModbusMemory;
  readonly table: Table;
  readonly address: number;
  readonly shape: TagShape;
}

/** A value that moves visibly, and is the same in reads that belong together. */
const STEP_MS = 500;

/**
 * The devices of a config before they exist: every tag has a plausible value of its own type in its own byte order, which
 * changes until a master writes it; every address without a tag is a hole. Units that are not in the config are not there.
 */
export class ConfigPlc {
  private readonly units = new Map<number, ModbusMemory>();
  private readonly places: Place[] = [];
  private readonly closer = new Closer();
  private server!: ModbusServer;
  private step = 0;

  private constructor(devices: readonly PlannedDevice[]) {
    for (const device of devices) {
      const memory = new ModbusMemory();
      if (this.units.has(device.unit))
        throw new HoldfastError(
          'usage.invalid',
          `unit ${device.unit} is there twice, the second one as ${device.asset}`,
          {
            hint: 'Choose one of the readers with --reader.',
          },
        );
      this.units.set(device.unit, memory);
      for (const { tags } of device.groups) for (const tag of tags) this.places.push(placeOf(memory, device, tag));
    }
    // Bits and fields after whole values, whose registers they may share.
    this.places.sort((a, b) => Number(a.shape.bits !== null) - Number(b.shape.bits !== null));
    for (const { memory, table, address, shape } of this.places)
      memory.add(table, address, isBitTable(table) ? 1 : registersOf(shape));
    this.fill();
  }

  /** @throws HoldfastError `listen.failed`, or `usage.invalid` when two devices have one unit id */
  static async open(options: { host: string; port: number; devices: readonly PlannedDevice[] }): Promise<ConfigPlc> {
    const plc = new ConfigPlc(options.devices);
    plc.server = await ModbusServer.open(options, {
      answer: (unit, pdu) => plc.answer(unit, pdu),
    });
    plc.closer.push('Modbus server', () => plc.server.close());
    const timer = setInterval(() => {
      plc.step++;
      plc.fill();
    }, STEP_MS).unref();
    plc.closer.push('values', () => clearInterval(timer));
    return plc;
  }

  get host(): string {
    return this.server.host;
  }

  get port(): number {
    return this.server.port;
  }

  stats(): object {
    const { counters, openConnections } = this.server;
    return { ...counters, openConnections, units: this.units.size, tags: this.places.length };
  }

  /** Switches faults. @throws HoldfastError `usage.invalid` */
  async set(patch: Partial<PlcFaults>): Promise<PlcFaults> {
    await this.server.set(patch);
    return { ...this.server.faults };
  }

  /** Resets every open connection. */
  reset(): void {
    this.server.reset();
  }

  close(): Promise<void> {
    return this.closer.close();
  }

  private answer(unit: number, pdu: Buffer): { pdu: Buffer } | undefined {
    const memory = this.units.get(unit);
    return memory && { pdu: memory.answer(pdu) };
  }

  private fill(): void {
    for (const { memory, table, address, shape } of this.places) {
      if (isBitTable(table)) {
        if (!memory.isWritten(table, address, 1)) memory.set(table, address, bitAt(shape, this.step) ? 1 : 0);
        continue;
      }
      const { words, mask } = registersAt(shape, this.step);
      if (memory.isWritten(table, address, words.length)) continue;
      for (const [i, word] of words.entries()) memory.set(table, address + i, word, mask);
    }
  }
}

function placeOf(memory: ModbusMemory, device: PlannedDevice, tag: PlannedTag): Place {
  const at = parseModbusAddress(tag.at);
  if (typeof at === 'string') throw new HoldfastError('config.invalid', `${device.asset}/${tag.name}: ${at}`);
  const { name, type, order = device.order, length = 0, chars = 'both', range } = tag;
  const invalid = tag.invalid ?? device.invalid ?? [];
  const shape: TagShape = {
    name,
    type,
    order: order.length === 8 && !type.endsWith('64') ? 'ABCD' : order,
    bits: at.bits,
    length,
    chars,
    states: Object.keys(tag.enum ?? {}).map(Number),
    ends: range ? range.raw : null,
    // What SunSpec calls none is beyond what is ever served.
    invalid: new Set(
      invalid === 'sunspec' ? [] : invalid.filter((value) => Number.isInteger(Number(value))).map(BigInt),
    ),
  };
  return { memory, table: at.table, address: at.address, shape };
}
