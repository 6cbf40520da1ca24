import type { Buffer } from 'node:buffer';
import { type Clock, systemClock } from '../lib/clock.js';
import { Closer } from '../lib/closer.js';
import { BottlingLine, STEP_MS } from './bottling-line.js';
import { LINE_ASSETS, type LineAsset, type LineTag } from './line-tags.js';
import { answer, type Read } from './modbus-pdu.js';
import { type ModbusCounters, type ModbusDevice, ModbusServer, type PlcFaults } from './modbus-server.js';
import { imageOf, placesOf, type UnitImage } from './registers.js';
import { TruthLog, type TruthRecord } from './truth-log.js';

export interface SimulatedPlcOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 5020; 0 takes a free one. */
  readonly port?: number;
  /** The same seed gives the same values in the same step. Default 1. */
  readonly seed?: number;
  /** NDJSON of every value served (`TruthRecord`). Started anew. */
  readonly truthFile?: string | undefined;
  readonly clock?: Clock;
}

export interface PlcStats extends ModbusCounters {
  /** Steps of 100 ms since the start. */
  readonly step: number;
  readonly openConnections: number;
  /** Values handed out, each tag of each answer counted once. */
  readonly readings: number;
  readonly perAsset: Readonly<Record<LineAsset, number>>;
}

export const PLC_PORT = 5020;

/**
 * A bottling line of four machines behind one Modbus/TCP port (`LINE_TAGS` has the register map), with a known truth: every
 * value that left in an answer is recorded, so that a test can prove that each one arrived at the far end. An answer that
 * the kernel took but the reader never received is in the truth too: the truth is what the reader could have, at most.
 */
export class SimulatedPlc {
  private readonly clock: Clock;
  private readonly startedMono: number;
  private readonly line: BottlingLine;
  private readonly truth: TruthLog;
  private readonly places = LINE_ASSETS.map((_, index) => placesOf(index + 1));
  private images: readonly UnitImage[] = [];
  private step = -1;
  private server!: ModbusServer;
  private readonly closer = new Closer();

  private constructor(seed: number, clock: Clock, truth: TruthLog) {
    this.clock = clock;
    this.startedMono = clock.mono();
    this.line = new BottlingLine(seed);
    this.truth = truth;
  }

  /** @throws HoldfastError `listen.failed` or `sim.io` */
  static async open(options: SimulatedPlcOptions = {}): Promise<SimulatedPlc> {
    const { host = '127.0.0.1', port = PLC_PORT, seed = 1, truthFile, clock = systemClock } = options;
    const truth = await TruthLog.open(truthFile);
    const plc = new SimulatedPlc(seed, clock, truth);
    plc.closer.push('truth file', () => truth.close());
    try {
      plc.advance();
      plc.server = await ModbusServer.open({ host, port }, { answer: (unit, pdu) => plc.answer(unit, pdu) });
    } catch (error) {
      await plc.close();
      throw error;
    }
    plc.closer.push('Modbus server', () => plc.server.close());
    // Keeps a line that nobody polls up to date, so that a read after a quiet night need not catch up on it.
    const timer = setInterval(() => plc.advance(), STEP_MS).unref();
    plc.closer.push('model clock', () => clearInterval(timer));
    return plc;
  }

  get host(): string {
    return this.server.host;
  }

  get port(): number {
    return this.server.port;
  }

  /** What has been handed to readers so far. */
  served(): PlcStats {
    return {
      ...this.server.counters,
      openConnections: this.server.openConnections,
      step: this.step,
      readings: this.truth.readings,
      perAsset: this.truth.perAsset(),
    };
  }

  stats(): PlcStats {
    return this.served();
  }

  /** Switches faults; resolves with all of them when they are in force. @throws HoldfastError `usage.invalid` */
  async set(patch: Partial<PlcFaults>): Promise<PlcFaults> {
    await this.server.set(patch);
    return { ...this.server.faults };
  }

  /** Resets every open connection. */
  reset(): void {
    this.server.reset();
  }

  /** Flushes the truth file. @throws when it misses records */
  close(): Promise<void> {
    return this.closer.close();
  }

  private advance(): void {
    const step = Math.floor((this.clock.mono() - this.startedMono) / STEP_MS);
    if (step === this.step) return;
    this.step = step;
    this.line.advanceTo(step);
    this.images = LINE_ASSETS.map((asset, index) => imageOf(this.places[index]!, this.line.values(asset)));
  }

  private answer(unit: number, pdu: Buffer): ReturnType<ModbusDevice['answer']> {
    this.advance();
    const image = this.images[unit - 1];
    if (!image) return undefined;
    const { pdu: response, read } = answer(pdu, image);
    return { pdu: response, sent: (request) => read && this.note(request, unit, read, image) };
  }

  private note(request: number, unit: number, { table, from, quantity }: Read, image: UnitImage): void {
    const ts = this.clock.now();
    for (const place of this.places[unit - 1]!) {
      if (place.table !== table || place.from < from || place.from + place.width > from + quantity) continue;
      const { asset, name } = place.tag;
      this.truth.record({ ts, asset, metric: name, value: truthOf(place.tag, image), request });
    }
  }
}

/** Tenths are divided by ten, as a person would write them down: 299 is 29.9 and not 29.900000000000002. */
function truthOf(tag: LineTag, image: UnitImage): TruthRecord['value'] {
  const raw = image.values[tag.name];
  if (typeof raw === 'bigint') return raw.toString();
  return typeof raw === 'number' && tag.scale !== undefined ? raw / Math.round(1 / tag.scale) : raw;
}
