/** How numbers, sizes and times read on the page. The text is English, so the numbers are too. */

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const precise = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

/** What stands where there is no value. */
export const NONE = '–';

/** @param {number} n */
export const count = (n) => whole.format(n);

/** `12.4K`, for axes. @param {number} n */
export const countShort = (n) => short.format(n);

/** `1 row`, `2 rows`. @param {number} n @param {string} one */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** @param {number} n */
export function bytes(n) {
  const power = n < 1024 ? 0 : Math.min(SIZES.length - 1, Math.floor(Math.log2(n) / 10));
  return `${precise.format(n / 1024 ** power)} ${SIZES[power]}`;
}

/** Per second; null where it is not known. @param {number | null} n */
export function perSecond(n) {
  if (n === null) return NONE;
  return `${n >= 100 ? whole.format(n) : precise.format(Math.round(n * 10) / 10)}/s`;
}

const UNITS = [
  { name: 'd', ms: 86_400_000 },
  { name: 'h', ms: 3_600_000 },
  { name: 'min', ms: 60_000 },
  { name: 's', ms: 1_000 },
];

/** The two largest units: `3 h 12 min`. @param {number} ms */
export function duration(ms) {
  const first = UNITS.findIndex((unit) => ms >= unit.ms);
  if (first < 0) return ms > 0 ? '< 1 s' : '0 s';
  const parts = [];
  let left = ms;
  for (const { name, ms: size } of UNITS.slice(first, first + 2)) {
    const n = Math.floor(left / size);
    left -= n * size;
    if (n > 0) parts.push(`${n} ${name}`);
  }
  return parts.join(' ');
}

/** A round trip: `4.2 ms`. @param {number | null} ms */
export const milliseconds = (ms) => (ms === null ? NONE : `${precise.format(ms)} ms`);

/** `14:03:22`, with the day when that is not today's. @param {number} at @param {number} now */
export function time(at, now) {
  const text = clock.format(at);
  return day.format(at) === day.format(now) ? text : `${day.format(at)}, ${text}`;
}

/** `12 s ago`. @param {number | null} at @param {number} now */
export function ago(at, now) {
  if (at === null) return 'never';
  const ms = now - at;
  return ms < 1_000 ? 'just now' : `${duration(ms)} ago`;
}

/** `since 14:03:22 (12 min)`. @param {number} at @param {number} now */
export const sinceWhen = (at, now) => `since ${time(at, now)} (${duration(now - at)})`;
