import type * as z from 'zod';
import { nearest } from './nearest.js';

/** Longer texts are cut in a message. */
const SHOWN_CHARS_MAX = 40;

const EXPECTED: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a map',
  array: 'a list',
};

const BOOLEAN_OF_YAML_1_1 = /^(y|yes|no|n|on|off|true|false)$/i;

/** What a value of the file is, for the sentence "expected …, found …". */
export function found(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  if (typeof value !== 'string') return `the ${typeof value} ${value}`;
  const shown = value.length > SHOWN_CHARS_MAX ? `${value.slice(0, SHOWN_CHARS_MAX)}...` : value;
  return `the text ${JSON.stringify(shown)}`;
}

/** An unknown word and, where one is near, the known word that was meant. */
export function didYouMean(word: string, known: readonly string[]): string {
  const meant = nearest(word, known);
  return meant === undefined ? '' : `; did you mean ${JSON.stringify(meant)}?`;
}

/**
 * The schema's complaints in the operator's words: what was expected and what was found. Texts that a schema brings
 * itself go before these. Unknown keys are told one by one by the caller, each at its own place.
 */
export function explain(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.input === undefined && issue.code.startsWith('invalid_')) return 'is required';
  switch (issue.code) {
    case 'invalid_type':
      return `expected ${EXPECTED[issue.expected] ?? issue.expected}, found ${found(issue.input)}${booleanHint(issue)}`;
    case 'invalid_value':
      return oneOf(issue.values.map(String), issue.input);
    case 'invalid_union': {
      const key = issue.discriminator as string | undefined;
      if (key === undefined) return undefined;
      const tag = (issue.input as Record<string, unknown>)[key];
      return tag === undefined ? 'is required' : oneOf((issue.options as unknown[]).map(String), tag);
    }
    case 'too_small':
      if (issue.origin === 'array' || issue.origin === 'string') return 'must not be empty';
      return `must be at least ${issue.minimum}, found ${issue.input}`;
    case 'too_big':
      if (issue.origin === 'array' || issue.origin === 'string') return `must not be longer than ${issue.maximum}`;
      return `must be at most ${issue.maximum}, found ${issue.input}`;
    default:
      return undefined;
  }
}

function oneOf(known: readonly string[], value: unknown): string {
  const expected = known.length === 1 ? known[0] : `one of ${known.join(', ')}`;
  return `expected ${expected}, found ${found(value)}${typeof value === 'string' ? didYouMean(value, known) : ''}`;
}

function booleanHint({ expected, input }: z.core.$ZodRawIssue): string {
  if (expected !== 'boolean' || typeof input !== 'string' || !BOOLEAN_OF_YAML_1_1.test(input)) return '';
  return '; YAML 1.2 has true and false only, without quotes';
}
