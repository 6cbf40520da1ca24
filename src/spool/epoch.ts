import { randomBytes } from 'node:crypto';

/** Crockford's base 32: sorts as it counts, and nobody mistakes an l for a 1. */
const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';
const TIME_DIGITS = 9;
const RANDOM_DIGITS = 8;

/** Sorts by time of creation, and cannot repeat: 9 digits of milliseconds and 8 random ones. */
export function newEpoch(): string {
  let time = '';
  for (let ms = Date.now(), i = 0; i < TIME_DIGITS; i++, ms = Math.floor(ms / 32)) time = DIGITS[ms % 32] + time;
  return time + Array.from(randomBytes(RANDOM_DIGITS), (byte) => DIGITS[byte % 32]).join('');
}

/** When the epoch was made, in milliseconds since 1970. */
export function epochTime(epoch: string): number {
  return Array.from(epoch.slice(0, TIME_DIGITS)).reduce((ms, digit) => ms * 32 + Math.max(0, DIGITS.indexOf(digit)), 0);
}
