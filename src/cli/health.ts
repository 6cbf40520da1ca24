import { Option } from 'commander';
import { EXIT, HoldfastError, messageOf } from '../lib/errors.js';
import type { CliCommand } from './command.js';

/** An answer that takes longer comes from a process that no longer turns. Below what supervisors grant a check (30 s). */
const ANSWER_WAIT_MS = 5_000;

export const health: CliCommand = (program, act) => {
  program
    .command('health')
    .description('ask a running gateway or ingest whether it is alive: 0 it is, 1 it is not')
    .addOption(new Option('--url <url>', 'its web address').env('HOLDFAST_HEALTH_URL').default('http://127.0.0.1:8080'))
    .action(
      act(async (io, options: { url: string }) => {
        const url = healthUrl(options.url);
        try {
          const signal = AbortSignal.any([io.stop, AbortSignal.timeout(ANSWER_WAIT_MS)]);
          const { status, body } = await fetch(url, { redirect: 'error', signal });
          await body?.cancel();
          io.out(`${url.href} answers ${status}`);
          return status === 200 ? EXIT.ok : EXIT.finding;
        } catch (error) {
          io.out(`${url.href} does not answer: ${reasonOf(error)}`);
          return EXIT.finding;
        }
      }),
    );
};

function healthUrl(text: string): URL {
  if (!/^https?:/.test(text) || !URL.canParse(text))
    throw new HoldfastError('usage.invalid', `"${text}" is not a web address`, {
      values: { url: text },
      hint: 'Write it like http://127.0.0.1:8080, the address of web.listen in the config.',
    });
  return new URL('/healthz', text);
}

/** Of a failed `fetch`, only the cause says what happened. */
function reasonOf(error: unknown): string {
  return messageOf(error instanceof Error && error.cause ? error.cause : error);
}
