import { type Checked, checkConfig } from '../config/loader.js';
import { ConfigError, formatProblem, type Problem } from '../config/problem.js';
import { counted, summaryOf } from '../config/summary.js';
import { accessProblems } from '../gateway/access.js';
import { EXIT } from '../lib/errors.js';
import type { CliCommand } from './command.js';

export const check: CliCommand = (program, act) => {
  program
    .command('check')
    .description('validate a config file of a gateway or an ingest before go-live')
    .argument('<file>', 'config file')
    .option('--json', 'print {ok, problems: [{file, line, col, path, message, severity}]}')
    .action(
      act(async (io, file: string, options: { json?: boolean }) => {
        const { checked, problems } = await examine(file);
        if (options.json) io.out(JSON.stringify({ ok: checked !== undefined, problems }));
        else {
          for (const problem of problems) io.out(formatProblem(problem));
          io.out(checked ? `${file}: ok${warned(problems)} (${summaryOf(checked)})` : `${file}: ${failed(problems)}`);
        }
        return checked ? EXIT.ok : EXIT.config;
      }),
    );
};

async function examine(file: string): Promise<{ checked?: Checked; problems: readonly Problem[] }> {
  try {
    const checked = checkConfig(file);
    const problems = checked.kind === 'gateway' ? await accessProblems(checked.config.broker) : [];
    return problems.length > 0
      ? { problems: [...checked.warnings, ...problems] }
      : { checked, problems: checked.warnings };
  } catch (error) {
    if (error instanceof ConfigError) return { problems: error.problems };
    throw error;
  }
}

const warned = (problems: readonly Problem[]) =>
  problems.length === 0 ? '' : `, ${counted(problems.length, 'warning')}`;
const failed = (problems: readonly Problem[]) => counted(problems.length, 'problem');
