import { InvalidArgumentError } from 'commander';
import type { Endpoint } from '../sim/wan.js';

const UNITS_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;

export function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== '' && Number.isInteger(value) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Not a whole number from ${min} to ${max}.`);
  };
}

export function milliseconds(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text);
  if (!match) throw new InvalidArgumentError('Not a duration such as 25ms, 1s, 30m or 6h.');
  return Math.round(Number(match[1]) * UNITS_MS[match[2] as keyof typeof UNITS_MS]);
}

export function endpoint(text: string): Endpoint {
  const match = /^\[?([^[\]]+)\]?:(\d+)$/.exec(text);
  const port = Number(match?.[2]);
  if (!match?.[1] || port < 1 || port > 65_535) throw new InvalidArgumentError('Not host:port.');
  return { host: match[1], port };
}
