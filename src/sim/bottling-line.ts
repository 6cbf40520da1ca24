import type { Millis } from '../model/ids.js';
import { LINE_ASSETS, type LineAsset } from './line-tags.js';
import { mix, randomFrom } from './random.js';

/** One step of the model. */
export const STEP_MS = 100 as Millis;

export const STATE = { stopped: 0, running: 1, starved: 2, blocked: 3, fault: 4 } as const;
type State = (typeof STATE)[keyof typeof STATE];

/** What a machine's controller holds: raw, before any scale. */
export interface MachineValues {
  readonly state: State;
  readonly good: number;
  readonly reject: number;
  readonly speed: number;
  /** 0.1 °C */
  readonly temperature: number;
  /** Wh */
  readonly energy: bigint;
  readonly recipe: string;
  readonly running: boolean;
}

interface MachineSpec {
  readonly asset: LineAsset;
  readonly bottlesPerMin: number;
  readonly rejectShare: number;
  readonly celsius: number;
  readonly powerKw: number;
  readonly goodStart: number;
  readonly energyStart: bigint;
}

const MACHINES: readonly MachineSpec[] = [
  {
    asset: 'filler',
    bottlesPerMin: 960,
    rejectShare: 0.004,
    celsius: -1,
    powerKw: 74,
    goodStart: 3_000_000_000,
    energyStart: 81_234_567n,
  },
  {
    asset: 'capper',
    bottlesPerMin: 1000,
    rejectShare: 0.006,
    celsius: 31,
    powerKw: 41,
    goodStart: 41_870_012,
    energyStart: 12_345_678n,
  },
  {
    asset: 'labeler',
    bottlesPerMin: 940,
    rejectShare: 0.012,
    celsius: 38,
    powerKw: 52,
    goodStart: 41_310_400,
    energyStart: 5_000_000_000n,
  },
  {
    asset: 'palletizer',
    bottlesPerMin: 1020,
    rejectShare: 0.001,
    celsius: 27,
    powerKw: 63,
    goodStart: 40_870_554,
    energyStart: 2n ** 53n + 1n,
  },
];

/** Two fill their 16 bytes to the last, so that nothing ends them but the length. */
const RECIPES = ['COLA-0.5L-PET', 'COLA-ZERO-0.5L', 'LEMON-1.0L-GLASS', 'WATER-STILL-0.5L', 'Water-0.33L'];
const RECIPE_STEPS = 6000;

/** Bottles that fit on the conveyor between two machines. */
const BUFFER_BOTTLES = 120;
/** A machine that ran dry or jammed waits for this many bottles or places, as a real one does, instead of flickering. */
const RESUME_BOTTLES = 20;
/** Per step: a fault every five minutes, a stop by the operator every half an hour. */
const FAULT_CHANCE = 1 / 3000;
const STOP_CHANCE = 1 / 18000;
const STEPS_PER_MIN = 60_000 / STEP_MS;
/** Wh that 1 kW uses in one step. */
const WH_PER_KW = (1000 * STEP_MS) / 3_600_000;
const IDLE_POWER_SHARE = 0.25;

/**
 * The model of the line. It knows no clock: the values are a function of the seed and the step alone, so that a run can be
 * repeated and a truth can be checked. Nearly every value changes in nearly every step.
 */
export class BottlingLine {
  private readonly seed: number;
  private readonly machines = MACHINES.map((spec) => new Machine(spec));
  /** Bottles waiting before machine n; the first takes from an endless store. */
  private readonly waiting = LINE_ASSETS.map((_, index) =>
    index === 0 ? Number.POSITIVE_INFINITY : BUFFER_BOTTLES / 2,
  );
  private step = 0;

  constructor(seed: number) {
    this.seed = seed;
  }

  /** Runs the model up to a step; an earlier one changes nothing. */
  advanceTo(step: number): void {
    while (this.step < step) this.tick(++this.step);
  }

  values(asset: LineAsset): MachineValues {
    const recipe = RECIPES[mix(this.seed, Math.floor(this.step / RECIPE_STEPS)) % RECIPES.length]!;
    return this.machines[LINE_ASSETS.indexOf(asset)]!.values(recipe);
  }

  private tick(step: number): void {
    this.machines.forEach((machine, index) => {
      const last = index === this.machines.length - 1;
      const room = last ? Number.POSITIVE_INFINITY : BUFFER_BOTTLES - this.waiting[index + 1]!;
      const { taken, passed } = machine.tick(randomFrom(mix(this.seed, step, index)), this.waiting[index]!, room);
      this.waiting[index]! -= taken;
      if (!last) this.waiting[index + 1]! += passed;
    });
  }
}

class Machine {
  private readonly spec: MachineSpec;
  private state: State = STATE.running;
  private downSteps = 0;
  private speed = 0;
  private bottles = 0;
  private good: number;
  private reject = 0;
  private celsius: number;
  private wattHours = 0;
  private energy: bigint;

  constructor(spec: MachineSpec) {
    this.spec = spec;
    this.good = spec.goodStart;
    this.energy = spec.energyStart;
    this.celsius = spec.celsius;
  }

  values(recipe: string): MachineValues {
    return {
      state: this.state,
      good: this.good,
      reject: this.reject,
      speed: this.speed,
      temperature: Math.round(this.celsius * 10),
      energy: this.energy,
      recipe,
      running: this.state === STATE.running,
    };
  }

  tick(random: () => number, waiting: number, room: number): { taken: number; passed: number } {
    this.state = this.nextState(random, waiting, room);
    const running = this.state === STATE.running;
    const target = running ? this.spec.bottlesPerMin * (0.97 + 0.06 * random()) : 0;
    const speed = this.speed + (target - this.speed) * 0.3;
    this.speed = Math.fround(speed < 1 ? 0 : speed);

    this.celsius += (this.spec.celsius + (running ? 2 : 0) - this.celsius) * 0.02 + (random() - 0.5) * 0.8;
    this.wattHours += this.spec.powerKw * (running ? 0.9 + 0.2 * random() : IDLE_POWER_SHARE) * WH_PER_KW;
    const whole = Math.floor(this.wattHours);
    this.wattHours -= whole;
    this.energy += BigInt(whole);

    if (!running) return { taken: 0, passed: 0 };
    this.bottles += this.speed / STEPS_PER_MIN;
    const taken = Math.min(Math.floor(this.bottles), waiting, room);
    this.bottles -= Math.floor(this.bottles);
    let passed = 0;
    for (let bottle = 0; bottle < taken; bottle++) if (random() >= this.spec.rejectShare) passed++;
    this.good = (this.good + passed) >>> 0;
    this.reject = (this.reject + taken - passed) >>> 0;
    return { taken, passed };
  }

  private nextState(random: () => number, waiting: number, room: number): State {
    const chance = random();
    if (this.downSteps > 0) {
      this.downSteps--;
      return this.state;
    }
    if (chance < FAULT_CHANCE) {
      this.downSteps = 50 + Math.floor(random() * 250);
      return STATE.fault;
    }
    if (chance < FAULT_CHANCE + STOP_CHANCE) {
      this.downSteps = 100 + Math.floor(random() * 500);
      return STATE.stopped;
    }
    if (waiting < (this.state === STATE.starved ? RESUME_BOTTLES : 1)) return STATE.starved;
    if (room < (this.state === STATE.blocked ? RESUME_BOTTLES : 1)) return STATE.blocked;
    return STATE.running;
  }
}
