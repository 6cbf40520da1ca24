import type { Millis } from '../model/ids.js';
import { HoldfastError } from './errors.js';

/** Wall time for what is stored and shown, monotonic time for what is measured and scheduled. Tests inject their own. */
export interface Clock {
  /** Milliseconds since 1970, UTC. May jump when the machine's clock is set. */
  now(): Millis;
  /** Milliseconds on a clock that never jumps; only differences mean anything. */
  mono(): number;
}

export const systemClock: Clock = {
  now: () => Date.now() as Millis,
  mono: () => performance.now(),
};

/**
 * The wall time at which it was made, carried on by the monotonic clock, so that setting the machine's clock does not move
 * it. For deadlines: a step of two weeks must not end what was to live for an hour.
 */
export function steadyClock(clock: Clock): Clock {
  const offset = clock.now() - clock.mono();
  return { now: () => Math.round(offset + clock.mono()) as Millis, mono: () => clock.mono() };
}

/** setTimeout fires at once above this many milliseconds, so longer waits are cut into pieces. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Waits `ms`, or less when `signal` aborts. Resolves in both cases: the caller looks at the signal. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  for (let left = ms; left > 0 && !signal?.aborted; left -= TIMER_MS_MAX)
    await sleepOnce(Math.min(left, TIMER_MS_MAX), signal);
}

function sleepOnce(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done, { once: true });
  });
}

/** `promise`, or a `HoldfastError` when it has not settled after `ms`. The loser is not cancelled. */
export async function within<T>(promise: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new HoldfastError('internal.assertion', `${what} did not finish within ${ms} ms`)),
      ms,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
