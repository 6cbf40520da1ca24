import { HoldfastError } from '../../lib/errors.js';

export interface Outage {
  readonly startMs: number;
  readonly lengthMs: number;
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** `40s`, `1m`, `500ms` in milliseconds. Throws `usage.invalid`. */
export function parseDuration(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  if (number === undefined || unit === undefined) {
    throw new HoldfastError('usage.invalid', `"${text}" is no duration`, { hint: 'write 500ms, 40s, 5m or 1h' });
  }
  return Number(number) * (UNITS[unit] as number);
}

/** `10s@15s`: cut for 10 s, 15 s after the start. Throws `usage.invalid`. */
export function parseOutage(text: string): Outage {
  const [length, start, ...rest] = text.split('@');
  if (!length || !start || rest.length > 0) {
    throw new HoldfastError('usage.invalid', `"${text}" is no outage`, { hint: 'write LENGTH@START, such as 10s@15s' });
  }
  return { lengthMs: parseDuration(length), startMs: parseDuration(start) };
}

/** In the order of their starts. Throws `usage.invalid` when two overlap or one ends after the run. */
export function planOutages(outages: readonly Outage[], forMs: number): Outage[] {
  const sorted = [...outages].sort((a, b) => a.startMs - b.startMs);
  let end = 0;
  for (const { startMs, lengthMs } of sorted) {
    if (startMs < end) throw new HoldfastError('usage.invalid', 'Two outages overlap');
    end = startMs + lengthMs;
  }
  if (end > forMs) {
    throw new HoldfastError(
      'usage.invalid',
      `The last outage ends at ${end / 1000} s, after the run of ${forMs / 1000} s`,
      {
        hint: 'make --for longer, or the outage shorter',
      },
    );
  }
  return sorted;
}
