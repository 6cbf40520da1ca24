import { dirname, resolve } from 'node:path';
import type { Directive } from './conf-file.js';

/** A value of the YAML file that the loader reads back as this text: a literal `${` is not to be filled in. */
export function literal(text: string): string {
  return text.replaceAll('${', () => '$${');
}

/** `mqtt://host:port` with brackets around IPv6. */
export function urlOf(scheme: string, host: string, port: number): string {
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** A whole number, or undefined. */
export function wholeNumber(text: string): number | undefined {
  return /^\d{1,12}$/.test(text) ? Number(text) : undefined;
}

/** A file stays where it is; one without a folder is looked for beside the file that names it. */
export function pathOf({ file, value }: Directive): string {
  return literal(resolve(dirname(file), value));
}

/** A word of the file that is looked up in a table: `constructor` and its like are in none. */
export function lookUp<T>(table: Readonly<Record<string, T>>, word: string): T | undefined {
  return Object.hasOwn(table, word) ? table[word] : undefined;
}
