import { HoldfastError } from '../lib/errors.js';
import { topicNameProblem } from './topics.js';

const FIELD = /\{([A-Za-z][A-Za-z0-9_]*)\}/g;

/**
 * A topic with named parts, `plant/{asset}/{metric}`, read both ways. A field is one level or a part of one, never empty;
 * a template that begins with a field takes no `$` topic, as a leading wildcard does not [MQTT-4.7.2-1].
 */
export class TopicTemplate {
  readonly text: string;
  readonly fields: readonly string[];
  /** The filter that takes every topic of the template. */
  readonly filter: string;
  private readonly pattern: RegExp;

  private constructor(text: string, fields: readonly string[], filter: string, pattern: RegExp) {
    this.text = text;
    this.fields = fields;
    this.filter = filter;
    this.pattern = pattern;
  }

  /** Throws `config.invalid` with what is wrong. */
  static parse(text: string): TopicTemplate {
    const fields = [...text.matchAll(FIELD)].map((match) => match[1] as string);
    const literal = text.replaceAll(FIELD, 'x');
    const problem = topicNameProblem(literal) ?? shapeProblem(text, literal, fields);
    if (problem)
      throw new HoldfastError('config.invalid', `Topic template "${text}": ${problem}`, { values: { text } });
    const filter = text.split('/').map((level) => (level.includes('{') ? '+' : level));
    const source = text.split(FIELD).map((part, n) => (n % 2 === 1 ? '([^/]+)' : escaped(part)));
    const guard = text.startsWith('{') ? '(?!\\$)' : '';
    return new TopicTemplate(text, fields, filter.join('/'), new RegExp(`^${guard}${source.join('')}$`, 'u'));
  }

  /** The fields of a topic of this template, or undefined when it is of another shape. */
  match(topic: string): Record<string, string> | undefined {
    const match = this.pattern.exec(topic);
    if (!match) return undefined;
    return Object.fromEntries(this.fields.map((field, n) => [field, match[n + 1] as string]));
  }

  /** The topic of these fields. Throws `config.invalid` when a value is missing or cannot stand in a level. */
  format(values: Readonly<Record<string, string>>): string {
    return this.text.replaceAll(FIELD, (_, field: string) => {
      const value = values[field];
      const problem = value === undefined ? 'is missing' : levelProblem(value);
      if (value === undefined || problem)
        throw new HoldfastError('config.invalid', `Topic template "${this.text}": ${field} ${problem}`, {
          values: { field, value },
        });
      return value;
    });
  }
}

function shapeProblem(text: string, literal: string, fields: readonly string[]): string | undefined {
  if (literal.includes('{') || literal.includes('}')) return 'a field is written {name}';
  if (text.includes('}{')) return 'two fields in a row cannot be told apart';
  if (new Set(fields).size < fields.length) return 'a field appears twice';
  return undefined;
}

function levelProblem(value: string): string | undefined {
  if (value.includes('/')) return 'must not contain /';
  const problem = topicNameProblem(value);
  return problem && `cannot stand in a topic: ${problem}`;
}

function escaped(literal: string): string {
  return literal.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
