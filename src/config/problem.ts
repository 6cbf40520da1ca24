import { HoldfastError } from '../lib/errors.js';

/** One thing that is wrong, or doubtful, in a config file. */
export interface Problem {
  readonly file: string;
  /** Counted from 1; null when the problem is the file as a whole. */
  readonly line: number | null;
  /** Counted from 1; null when it is the line as a whole. */
  readonly col: number | null;
  /** Keys and list positions from the top, `readers.0.devices.1.asset`; empty for the file as a whole. */
  readonly path: string;
  readonly message: string;
  readonly severity: 'error' | 'warning';
}

/** `file:line:col: path: message`, the form that editors and CI jump from; a warning says so before its path. */
export function formatProblem({ file, line, col, path, message, severity }: Problem): string {
  const where = [file, line, col].filter((part) => part !== null).join(':');
  return [where, severity === 'warning' ? 'warning' : '', path, message].filter((part) => part !== '').join(': ');
}

/** A config that must not be used, with everything that is wrong with it. */
export class ConfigError extends HoldfastError {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    const errors = problems.filter((problem) => problem.severity === 'error');
    super('config.invalid', `the config is not valid\n${errors.map(formatProblem).join('\n')}`, {
      values: { problems },
    });
    this.name = 'ConfigError';
    this.problems = problems;
  }
}
