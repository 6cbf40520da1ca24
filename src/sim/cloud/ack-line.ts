import { spend } from '../faults.js';
import { Fifo } from '../fifo.js';
import type { CloudFaults } from './faults.js';

export interface Ack {
  readonly cmd: 'puback' | 'pubrec';
  readonly messageId: number;
  readonly reasonCode: number;
}

export interface AckEnds {
  send(ack: Ack): void;
  swallow(): void;
}

/** How long acknowledgements gather for a permuted order when fewer than the window come. */
const GATHER_MS = 20;

/** The way of one connection's acknowledgements to the client, with the faults that may happen to them on it. */
export class AckLine {
  private readonly faults: CloudFaults;
  private readonly random: () => number;
  private readonly ends: AckEnds;
  private gathered: Ack[] = [];
  private gathering: NodeJS.Timeout | undefined;
  private readonly waiting = new Fifo<{ ack: Ack; dueMs: number }>();
  private timer: NodeJS.Timeout | undefined;

  constructor(faults: CloudFaults, random: () => number, ends: AckEnds) {
    this.faults = faults;
    this.random = random;
    this.ends = ends;
  }

  get length(): number {
    return this.gathered.length + this.waiting.length;
  }

  add(ack: Ack): void {
    const left = spend(this.faults.swallowAcks);
    if (left !== undefined) {
      this.faults.swallowAcks = left;
      this.ends.swallow();
      return;
    }
    if (this.faults.ackOrder === 'fifo' && this.gathered.length === 0) {
      this.delay(ack);
      return;
    }
    this.gathered.push(ack);
    if (this.gathered.length >= this.faults.ackWindow) this.release();
    else this.gathering ??= setTimeout(() => this.release(), GATHER_MS);
  }

  close(): void {
    clearTimeout(this.gathering);
    clearTimeout(this.timer);
    this.gathered = [];
    this.waiting.clear();
  }

  private release(): void {
    clearTimeout(this.gathering);
    this.gathering = undefined;
    const acks = this.gathered;
    this.gathered = [];
    if (this.faults.ackOrder === 'reverse') acks.reverse();
    if (this.faults.ackOrder === 'random') shuffle(acks, this.random);
    for (const ack of acks) this.delay(ack);
  }

  private delay(ack: Ack): void {
    this.waiting.push({ ack, dueMs: performance.now() + this.faults.ackDelayMs });
    this.sendDue();
  }

  private sendDue(): void {
    if (this.timer) return;
    for (let next = this.waiting.peek(); next; next = this.waiting.peek()) {
      const waitMs = next.dueMs - performance.now();
      if (waitMs > 0) {
        this.timer = setTimeout(() => {
          this.timer = undefined;
          this.sendDue();
        }, Math.ceil(waitMs));
        return;
      }
      this.waiting.shift();
      this.ends.send(next.ack);
    }
  }
}

/** Fisher and Yates. */
function shuffle<T>(items: T[], random: () => number): void {
  for (let n = items.length - 1; n > 0; n--) {
    const other = Math.floor(random() * (n + 1));
    [items[n], items[other]] = [items[other]!, items[n]!];
  }
}
