import { setTimeout as delay } from 'node:timers/promises';

/** Waits until `condition` returns something truthy and returns it; fails after `ms` with what was waited for. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  ms = 10_000,
): Promise<NonNullable<Exclude<T, false | 0 | ''>>> {
  const deadline = performance.now() + ms;
  for (;;) {
    const value = await condition();
    if (value) return value as NonNullable<Exclude<T, false | 0 | ''>>;
    if (performance.now() > deadline) throw new Error(`Waited ${ms} ms in vain for: ${what}`);
    await delay(5);
  }
}
