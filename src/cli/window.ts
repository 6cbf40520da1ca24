import { HoldfastError } from '../lib/errors.js';
import type { Millis } from '../model/ids.js';

export const TIME_HELP = '2026-07-17T02:00Z, or how long ago, such as 90m, 6h or 7d';

const UNITS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** A time on the command line; without a zone it is UTC. Throws `usage.invalid`. */
export function parseTime(text: string, now: Millis): Millis {
  const [, amount, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (amount !== undefined) return (now - Number(amount) * UNITS[unit as keyof typeof UNITS]) as Millis;
  const isDate = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/.test(text);
  const zoned = /(Z|[+-]\d\d:\d\d)$/.test(text) || !text.includes('T') ? text : `${text}Z`;
  const ms = isDate ? Date.parse(zoned) : Number.NaN;
  if (!Number.isNaN(ms)) return ms as Millis;
  throw new HoldfastError('usage.invalid', `"${text}" is no time: write ${TIME_HELP}`, { values: { text } });
}

/** A span such as 30m or 1h. Throws `usage.invalid` on none and on 0. */
export function parseSpan(text: string): number {
  const [, amount, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const ms = Number(amount ?? 0) * UNITS[(unit ?? 's') as keyof typeof UNITS];
  if (ms > 0) return ms;
  throw new HoldfastError('usage.invalid', `"${text}" is no span of time: write 30m, 1h or 1d`, { values: { text } });
}

/** Throws `usage.invalid` unless `from` is before `to`. */
export function parseWindow(from: string, to: string | undefined, now: Millis): { from: Millis; to: Millis } {
  const window = { from: parseTime(from, now), to: to === undefined ? now : parseTime(to, now) };
  if (window.from < window.to) return window;
  throw new HoldfastError('usage.invalid', 'the window is empty: --from must be before --to', { values: window });
}

export const iso = (ms: number): string => new Date(ms).toISOString().replace('.000Z', 'Z');

export function rangesText(ranges: readonly { readonly from: number; readonly to: number }[]): string {
  return ranges.map(({ from, to }) => (from === to ? `${from}` : `${from}–${to}`)).join(', ');
}
