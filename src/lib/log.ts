import { pino } from 'pino';

/** A fixed sentence and fields. Everything variable belongs in the fields, so that a sentence can be searched for. */
export interface Log {
  debug(fields: object, sentence: string): void;
  info(fields: object, sentence: string): void;
  warn(fields: object, sentence: string): void;
  error(fields: object, sentence: string): void;
  child(fields: object): Log;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** JSON lines on stderr; stdout belongs to the command's own output. */
export function createLog(level: LogLevel, base: object = {}): Log {
  return pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination({ dest: 2, sync: true }));
}

export const silentLog: Log = pino({ level: 'silent' });

/**
 * Lets through the first of a run of equal events and then one summary per `everyMs` with the number held back, so that
 * a device that fails ten times a second for a year does not fill the disk with its complaints.
 */
export class RateLimit {
  private readonly seen = new Map<string, { at: number; held: number }>();
  private readonly everyMs: number;
  private readonly mono: () => number;

  constructor(everyMs = 60_000, mono: () => number = () => performance.now()) {
    this.everyMs = everyMs;
    this.mono = mono;
  }

  /** The number of events held back since the last one let through, or undefined when this one is held back too. */
  pass(key: string): number | undefined {
    const now = this.mono();
    const entry = this.seen.get(key);
    if (entry && now - entry.at < this.everyMs) {
      entry.held++;
      return undefined;
    }
    this.seen.set(key, { at: now, held: 0 });
    if (this.seen.size > 1000) this.seen.delete(this.seen.keys().next().value as string);
    return entry?.held ?? 0;
  }
}
