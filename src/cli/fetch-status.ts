import { sleep } from '../lib/clock.js';
import { EXIT, type ExitCode, HoldfastError, messageOf } from '../lib/errors.js';
import type { Io } from './command.js';

/** An answer that takes longer comes from a process that no longer turns. */
const ANSWER_WAIT_MS = 5_000;
const WATCH_EVERY_MS = 1_000;
const CLEAR = '\x1b[2J\x1b[H';

export interface StatusFlags {
  readonly json?: boolean;
  readonly watch?: boolean;
}

/** The `/status` of a running process. Throws `usage.invalid`, and `upstream.lost` when it does not answer. */
export async function fetchStatus<Status>(text: string, stop: AbortSignal): Promise<Status> {
  if (!/^https?:/.test(text) || !URL.canParse(text))
    throw new HoldfastError('usage.invalid', `"${text}" is not a web address`, {
      hint: 'Write it like http://127.0.0.1:8080, the address of web.listen in the config.',
    });
  const url = new URL('/status', text);
  try {
    const answer = await fetch(url, {
      redirect: 'error',
      signal: AbortSignal.any([stop, AbortSignal.timeout(ANSWER_WAIT_MS)]),
    });
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    return (await answer.json()) as Status;
  } catch (error) {
    const reason = messageOf(error instanceof Error && error.cause ? error.cause : error);
    throw new HoldfastError('upstream.lost', `${url.href} gives no status: ${reason}`, {
      cause: error,
      hint: 'Is it running, and is web.listen of its config this address?',
    });
  }
}

/** Prints a status once, or again and again until the wish to stop. `findings` of it need a human: then exit code 1. */
export async function showStatus<Status>(
  io: Io,
  flags: StatusFlags,
  take: () => Promise<Status>,
  screen: (status: Status) => readonly string[],
  findings: (status: Status) => readonly string[],
): Promise<ExitCode> {
  for (;;) {
    const status = await take();
    const needed = findings(status);
    if (flags.json) io.out(JSON.stringify({ ...status, needsHuman: needed }));
    else {
      if (flags.watch && io.interactive) io.out(CLEAR);
      for (const line of screen(status)) io.out(line);
      for (const finding of needed) io.out(`  !  ${finding}`);
      if (needed.length === 0) io.out('  nothing needs you');
    }
    if (!flags.watch) return needed.length > 0 ? EXIT.finding : EXIT.ok;
    await sleep(WATCH_EVERY_MS, io.stop);
    if (io.stop.aborted) return needed.length > 0 ? EXIT.finding : EXIT.ok;
  }
}
