/** Files that people write by line: how they are read, and how what is wrong in them is told. */
import { readFile } from 'node:fs/promises';
import { HoldfastError, messageOf, systemCodeOf } from '../lib/errors.js';

export interface LineProblem {
  readonly file: string;
  /** Counted from 1; null: the file as a whole. */
  readonly line: number | null;
  readonly message: string;
}

/** Files of passwords or rules are far below; what is larger is another file by a slip of the pen. */
const FILE_BYTES_MAX = 16 * 2 ** 20;

const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'no permission to read it',
  EISDIR: 'it is a folder',
};

/** `config.invalid` with every problem as `file:line: message`; `values.problems` has them one by one. */
export function refused(what: string, problems: readonly LineProblem[]): HoldfastError {
  const lines = problems.map(({ file, line, message }) => `${line === null ? file : `${file}:${line}`}: ${message}`);
  return new HoldfastError('config.invalid', `${what}\n${lines.join('\n')}`, { values: { problems } });
}

/** Throws `config.invalid`. */
export async function readText(file: string): Promise<string> {
  const whole = (message: string) => refused('a file cannot be used', [{ file, line: null, message }]);
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (error) {
    throw whole(`cannot be read: ${UNREADABLE[systemCodeOf(error) ?? ''] ?? messageOf(error)}`);
  }
  if (bytes.length > FILE_BYTES_MAX) throw whole(`is larger than ${FILE_BYTES_MAX} bytes`);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw whole('is not UTF-8; is it a text file?');
  }
  // A tool that reads C strings would stop here, and see another file than we do.
  if (text.includes('\0')) throw whole('contains a NUL character');
  return text;
}

/** Waits for all, and throws what was wrong with any of them as one error. */
export async function allOrProblems<T>(what: string, parts: readonly Promise<T>[]): Promise<T[]> {
  const settled = await Promise.allSettled(parts);
  const problems: LineProblem[] = [];
  const values: T[] = [];
  for (const part of settled) {
    if (part.status === 'fulfilled') values.push(part.value);
    else if (part.reason instanceof HoldfastError && Array.isArray(part.reason.values.problems))
      problems.push(...(part.reason.values.problems as LineProblem[]));
    else throw part.reason;
  }
  if (problems.length > 0) throw refused(what, problems);
  return values;
}
