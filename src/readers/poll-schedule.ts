export interface PollScheduleOptions {
  readonly everyMs: number;
  /** Names the group: its phase follows from it, so the same configuration gives the same schedule on every start. */
  readonly name: string;
  /** The monotonic clock at the start. */
  readonly startMono: number;
}

export interface PollTurn {
  /** When the next cycle is due, on the monotonic clock. */
  readonly dueMono: number;
  /** Cycles that came due since the last turn and were not run. */
  readonly missed: number;
}

/**
 * Groups start spread over at most this long: enough to flatten the burst of many groups with one period, and short
 * enough that an hourly group has its first value at once.
 */
const PHASE_SPREAD_MS_MAX = 1000;

/**
 * The due times of a group: start + phase + k · period on the monotonic clock. They follow from k alone, so a slow cycle
 * never shifts the later ones. A cycle whose time has passed is skipped and counted, never made up for: a bus that is too
 * slow for its load would otherwise fall behind without end.
 */
export class PollSchedule {
  private readonly everyMs: number;
  private readonly firstMono: number;
  private last = -1;

  constructor({ everyMs, name, startMono }: PollScheduleOptions) {
    this.everyMs = everyMs;
    this.firstMono = startMono + fraction(name) * Math.min(everyMs, PHASE_SPREAD_MS_MAX);
  }

  /** The first due time that lies ahead of `nowMono`. Each due time is handed out once. */
  next(nowMono: number): PollTurn {
    const ahead = Math.max(this.last + 1, Math.floor((nowMono - this.firstMono) / this.everyMs) + 1);
    const missed = ahead - this.last - 1;
    this.last = ahead;
    return { dueMono: this.firstMono + ahead * this.everyMs, missed };
  }
}

/** A number in [0, 1) from a name: FNV-1a with a final mix, since its high bits change little between similar names. */
function fraction(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
