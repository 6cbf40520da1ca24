import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { checkConfig } from '../config/loader.js';
import { importMosquitto } from '../config/mosquitto/import.js';
import type { Note, Outcome } from '../config/mosquitto/notes.js';
import { ConfigError, formatProblem, type Problem } from '../config/problem.js';
import { accessProblems } from '../gateway/access.js';
import { EXIT, HoldfastError, messageOf } from '../lib/errors.js';
import type { CliCommand } from './command.js';

interface Flags {
  readonly output: string;
  readonly id?: string;
  readonly upstream?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

const OWNER_ONLY = 0o600;
const WORDS: Readonly<Record<Outcome, string>> = { kept: 'kept', changed: 'changed', unsupported: 'not supported' };

export const importCommand: CliCommand = (program, act) => {
  const group = program.command('import').description('take over the config of another broker');
  group
    .command('mosquitto')
    .description(
      'write a gateway config from a mosquitto.conf and tell of every line; ends with 1 if any is not supported',
    )
    .argument('<conf>', 'mosquitto.conf')
    .requiredOption('-o, --output <file>', 'config file to write')
    .option('--id <id>', 'id of the gateway (default: the name of the bridge)')
    .option('--upstream <url>', 'where to send, if the file has no bridge')
    .option('--force', 'overwrite the output')
    .option('--json', 'print {notes, problems}')
    .action(
      act(async (io, conf: string, flags: Flags) => {
        const { yaml, notes } = importMosquitto(conf, flags);
        write(flags.output, yaml, flags.force === true);
        const problems = await problemsOf(flags.output);
        if (flags.json) io.out(JSON.stringify({ notes, problems }));
        else {
          for (const line of table(notes)) io.out(line);
          for (const problem of problems) io.out(formatProblem(problem));
          io.out(`${flags.output}: written, ${tally(notes)}`);
        }
        const isWhole = !notes.some(({ outcome }) => outcome === 'unsupported');
        return isWhole && problems.every(({ severity }) => severity === 'warning') ? EXIT.ok : EXIT.finding;
      }),
    );
};

/** A bridge's password may be in it. */
function write(file: string, yaml: string, force: boolean): void {
  if (existsSync(file) && !force)
    throw new HoldfastError('usage.invalid', `${file} is there already`, { hint: 'use --force to overwrite it' });
  try {
    writeFileSync(file, yaml, { mode: OWNER_ONLY });
    chmodSync(file, OWNER_ONLY);
  } catch (cause) {
    throw new HoldfastError('usage.invalid', `Cannot write ${file}: ${messageOf(cause)}`, { cause });
  }
}

/** What `holdfast check` says of the result. */
async function problemsOf(file: string): Promise<readonly Problem[]> {
  try {
    const checked = checkConfig(file);
    const files = checked.kind === 'gateway' ? await accessProblems(checked.config.broker) : [];
    return [...checked.warnings, ...files];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

function table(notes: readonly Note[]): string[] {
  const rows = notes.map(({ outcome, file, line, directive, message }) => [
    WORDS[outcome],
    file === null ? '-' : `${file}:${line}`,
    directive,
    message,
  ]);
  const width = (column: number) => Math.min(60, Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => row.map((cell, column) => (column < 3 ? cell.padEnd(width(column)) : cell)).join('  '));
}

function tally(notes: readonly Note[]): string {
  return (['kept', 'changed', 'unsupported'] as const)
    .map((outcome) => `${notes.filter((note) => note.outcome === outcome).length} ${WORDS[outcome]}`)
    .join(', ');
}
