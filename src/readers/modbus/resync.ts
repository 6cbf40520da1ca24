import { REGISTERS_PER_READ_MAX } from '../../model/modbus.js';
import { dataBytesOf, type ReadRequest, type WriteRequest } from './requests.js';

/**
 * Keeps question and answer together on a framing without transaction ids.
 *
 * After a timeout the answer may still come, and would pass for the answer to the next question of the same length: from
 * then on every value would be that of the question before. The length is the one thing that an answer tells of its
 * question. So the next question has a length that none of the unanswered ones has. A device answers in order: when
 * that answer is in, all the older ones have come or never will, and normal questions go on.
 *
 * An exception has no length and proves nothing. When no unused length is left, only silence helps.
 *
 * Not covered: a device that answers out of order. There is none on a serial line; on TCP the transaction id is used.
 */
export class Resync {
  private readonly region: ReadRequest | undefined;
  private readonly quarantineMs: number;
  private readonly unanswered = new Set<string>();
  private turn = 0;
  private lastMono = 0;

  /** `region`: what can be read of the unit for sure, the larger the better; `timeoutMs`: how long one answer is waited for. */
  constructor(region: ReadRequest | undefined, timeoutMs: number) {
    this.region = region;
    this.quarantineMs = timeoutMs * QUARANTINE_TIMEOUTS;
  }

  /** Whether an answer may be under way, so that only `probe()` may be asked. */
  isNeeded(nowMono: number): boolean {
    if (this.unanswered.size === 0) return false;
    if (nowMono - this.lastMono < this.quarantineMs) return true;
    this.unanswered.clear();
    return false;
  }

  /** What to ask next; undefined when no length is left, and the unit has to be left in silence. */
  probe(): ReadRequest | undefined {
    if (!this.region || this.unanswered.size >= UNANSWERED_MAX) return undefined;
    const sizes = sizesOf(this.region);
    for (let i = 0; i < sizes.length; i++) {
      const request = { ...this.region, quantity: sizes[this.turn++ % sizes.length] as number };
      if (!this.unanswered.has(shapeOf(request))) return request;
    }
    return undefined;
  }

  /** A question that got no answer, or an exception while older ones had none. */
  unansweredBy(request: ReadRequest | WriteRequest, nowMono: number): void {
    this.unanswered.add(shapeOf(request));
    this.lastMono = nowMono;
  }

  /** A probe was answered: nothing older can come any more. */
  settled(): void {
    this.unanswered.clear();
  }
}

/** Lengths with different byte counts: within the region, where every register is known to exist, then a little beyond. */
function sizesOf({ fc, address, quantity }: ReadRequest): number[] {
  const step = fc <= 2 ? 8 : 1;
  const units = Math.ceil(quantity / step);
  const max = Math.min(REGISTERS_PER_READ_MAX, Math.floor((0x10000 - address) / step));
  const inside = Array.from({ length: Math.min(units, max) }, (_, i) => (i + 1) * step);
  const beyond = Array.from({ length: BEYOND_MAX }, (_, i) => (units + 1 + i) * step);
  return [...inside, ...beyond.filter((size) => size <= max * step)];
}

function shapeOf(request: ReadRequest | WriteRequest): string {
  return 'quantity' in request ? `${request.fc}/${dataBytesOf(request)}` : `${request.fc}`;
}

/** A device that is this late has not just been slow. Nothing but a serial converter with a long queue comes near. */
const QUARANTINE_TIMEOUTS = 10;
/** Enough for an answer that is late by many timeouts; a unit that answers none of them is down, not late. */
const UNANSWERED_MAX = 12;
/** Few, since the registers there may not exist. */
const BEYOND_MAX = 8;
