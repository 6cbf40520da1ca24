import type { Command } from 'commander';
import type { ExitCode } from '../lib/errors.js';

/** What a command may touch of the process: its two output streams and the wish to stop. */
export interface Io {
  /** A line on stdout: the command's own answer. */
  out(line: string): void;
  /** A line on stderr: progress and complaints. */
  err(line: string): void;
  /** Aborts at the first SIGTERM or SIGINT: finish in order. */
  readonly stop: AbortSignal;
  /** Aborts at the second one: finish now. */
  readonly hurry: AbortSignal;
  /** Calls back at each SIGHUP from now on: read anew what may change. */
  onReload(callback: () => void): void;
  /** True when a person watches stdout. */
  readonly interactive: boolean;
}

/** Runs an action under the process's error handling; what it returns becomes the exit code. */
export type Act = <Args extends unknown[]>(
  action: (io: Io, ...args: Args) => Promise<ExitCode>,
) => (...args: Args) => Promise<void>;

/** One file per command exports one of these: it declares flags and hands over, and holds no logic of its own. */
export type CliCommand = (program: Command, act: Act) => void;
