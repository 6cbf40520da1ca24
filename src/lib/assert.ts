import { HoldfastError } from './errors.js';

/** Stays on in production: a broken invariant must end the process before it can lose data quietly. */
export function assert(condition: unknown, message: string, values?: Record<string, unknown>): asserts condition {
  if (!condition)
    throw new HoldfastError('internal.assertion', `Assertion failed: ${message}`, { values: values ?? {} });
}

/** The last arm of every switch over a union: a forgotten case is a compile error, and an error at run time. */
export function assertNever(value: never, what: string): never {
  throw new HoldfastError('internal.assertion', `Unhandled ${what}: ${JSON.stringify(value)}`);
}
