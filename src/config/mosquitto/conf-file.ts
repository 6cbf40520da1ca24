/** Reads a `mosquitto.conf` as Mosquitto does [mosquitto.conf(5)]: lines of a name and a value, and files of a folder. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { HoldfastError, messageOf } from '../../lib/errors.js';

export interface Directive {
  readonly file: string;
  readonly line: number;
  readonly name: string;
  /** Without blanks around it; empty when there is none. */
  readonly value: string;
}

/** A folder of configuration has a handful; this many are another folder. */
const FILES_MAX = 1_000;

/** All lines in the order in which they take effect, those of `include_dir` in its place. Throws `config.invalid`. */
export function readConf(file: string): Directive[] {
  return readOne(file).flatMap((directive) => {
    if (directive.name !== 'include_dir') return [directive];
    const folder = resolve(dirname(file), directive.value);
    // As Mosquitto does: sorted by bytes, and no folder within the folder.
    const names = attempt(`${file}:${directive.line}: include_dir`, () => readdirSync(folder))
      .filter((name) => name.endsWith('.conf') && !name.startsWith('.'))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    if (names.length > FILES_MAX) throw invalid(`${folder}: more than ${FILES_MAX} files`);
    const included = names.flatMap((name) => readOne(join(folder, name)));
    return [directive, ...included.filter(({ name }) => name !== 'include_dir')];
  });
}

function readOne(file: string): Directive[] {
  const text = attempt(file, () => readFileSync(file, 'utf8'));
  return text.split('\n').flatMap((untrimmed, index) => {
    const line = untrimmed.trimEnd();
    // Only a # in the first column makes a comment.
    const [, name, value = ''] = line.startsWith('#') ? [] : (/^ *([^ ]+) *(.*)$/.exec(line) ?? []);
    return name === undefined ? [] : [{ file, line: index + 1, name, value }];
  });
}

function attempt<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw invalid(`${what}: cannot be read: ${messageOf(cause)}`, cause);
  }
}

function invalid(message: string, cause?: unknown): HoldfastError {
  return new HoldfastError('config.invalid', message, { cause });
}
