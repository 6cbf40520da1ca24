/**
 * Slows down who guesses passwords, and bounds the work that logins can cause. Attempts of one address are checked one
 * after the other; after a few failures each has to wait, longer with every further one. Clients that are known to be
 * right do not come here, so that a guesser does not lock out his neighbours behind the same address.
 */
import { type Clock, sleep } from '../lib/clock.js';
import { ProtocolError, REASON } from './reason.js';

/** Half of the threads that Node has for work like this; the others resolve names and read files. */
const CHECKS_MAX = 2;
/** Slips of the finger before waiting begins. */
const FREE_FAILURES = 3;
const WAIT_FIRST_MS = 100;
/** Shorter than the time a client has for its CONNECT, so that the right password still gets an answer. */
const WAIT_MAX_MS = 2_000;
/** An address that has behaved for so long starts anew. */
const FORGET_MS = 600_000;
/** Attempts that wait; more are told that the server is busy. */
const WAITING_MAX = 4_000;
const WAITING_PER_ADDRESS_MAX = 1_000;
/** Addresses that are remembered; of more the oldest are forgotten. */
const ADDRESSES_MAX = 10_000;

interface Lane {
  failures: number;
  failedAt: number;
  notBefore: number;
  waiting: number;
  tail: Promise<unknown>;
}

export class LoginGuard {
  private readonly clock: Clock;
  private readonly wait: (ms: number) => Promise<void>;
  private readonly lanes = new Map<string, Lane>();
  private waiting = 0;
  private free = CHECKS_MAX;
  private readonly queue: (() => void)[] = [];

  constructor(clock: Clock, wait: (ms: number) => Promise<void> = sleep) {
    this.clock = clock;
    this.wait = wait;
  }

  /** Runs `check` when it is this attempt's turn, unless `isGone`. Throws ProtocolError when too many wait. */
  async run(address: string, isGone: () => boolean, check: () => Promise<boolean>): Promise<boolean> {
    const lane = this.laneOf(address);
    if (lane.waiting >= WAITING_PER_ADDRESS_MAX || this.waiting >= WAITING_MAX)
      throw new ProtocolError(REASON.serverBusy, 'too many logins at once');
    lane.waiting++;
    this.waiting++;
    const mine = lane.tail.then(() => this.attempt(lane, isGone, check));
    lane.tail = mine.catch(() => {});
    try {
      return await mine;
    } finally {
      lane.waiting--;
      this.waiting--;
      if (lane.waiting === 0 && lane.failures === 0) this.lanes.delete(address);
    }
  }

  private async attempt(lane: Lane, isGone: () => boolean, check: () => Promise<boolean>): Promise<boolean> {
    await this.wait(lane.notBefore - this.clock.mono());
    if (isGone()) return false;
    if (this.free > 0) this.free--;
    else await new Promise<void>((resolve) => this.queue.push(resolve));
    let right: boolean;
    try {
      right = await check();
    } finally {
      const next = this.queue.shift();
      if (next) next();
      else this.free++;
    }
    if (!right) this.failed(lane);
    return right;
  }

  private failed(lane: Lane): void {
    const now = this.clock.mono();
    lane.failures++;
    lane.failedAt = now;
    const beyond = lane.failures - FREE_FAILURES;
    if (beyond > 0) lane.notBefore = now + Math.min(WAIT_MAX_MS, WAIT_FIRST_MS * 2 ** (beyond - 1));
  }

  private laneOf(address: string): Lane {
    const known = this.lanes.get(address);
    if (known) {
      if (known.failures > 0 && this.clock.mono() - known.failedAt > FORGET_MS) known.failures = 0;
      return known;
    }
    const lane = { failures: 0, failedAt: 0, notBefore: 0, waiting: 0, tail: Promise.resolve() };
    if (this.lanes.size >= ADDRESSES_MAX) this.lanes.delete(this.lanes.keys().next().value as string);
    this.lanes.set(address, lane);
    return lane;
  }
}
