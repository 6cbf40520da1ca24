/** Values of options that several commands take; a wrong one ends the command with exit code 64. */
import { InvalidArgumentError } from 'commander';
import { duration } from '../config/units.js';
import type { Endpoint } from '../sim/wan.js';

export function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`expected a whole number from ${min} to ${max}`);
  };
}

/** A duration as in a config file, in milliseconds. */
export function milliseconds(min: string, max: string): (text: string) => number {
  return (text) => {
    const parsed = duration(min, max).safeParse(text);
    if (parsed.success) return parsed.data;
    throw new InvalidArgumentError(parsed.error.issues.map(({ message }) => message).join('; '));
  };
}

export function endpoint(text: string): Endpoint {
  const match = /^\[?([^[\]]+)\]?:(\d+)$/.exec(text);
  const port = Number(match?.[2]);
  if (!match?.[1] || port < 1 || port > 65_535) throw new InvalidArgumentError('expected HOST:PORT');
  return { host: match[1], port };
}
