import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { InvalidArgumentError, Option } from 'commander';
import { deletePassword, type NewHash, setPassword } from '../gateway/access.js';
import { EXIT, type ExitCode, HoldfastError } from '../lib/errors.js';
import type { CliCommand, Io } from './command.js';

interface Flags {
  readonly stdin?: boolean;
  readonly delete?: boolean;
  readonly hash: NewHash['kind'];
  readonly iterations?: number;
}

export const passwd: CliCommand = (program, act) => {
  program
    .command('passwd')
    .description("create, change or delete a user in a password file of Mosquitto's form")
    .argument('<file>', 'password file; it is created where there is none')
    .argument('<user>', 'user name')
    .option('--stdin', 'the password is the first line of standard input')
    .option('--delete', 'remove the user')
    .addOption(
      new Option('--hash <kind>', 'argon2id: for Holdfast and a Mosquitto 2.1 that is built with it')
        .choices(['sha512-pbkdf2', 'argon2id'])
        .default('sha512-pbkdf2'),
    )
    .option('--iterations <count>', 'work that one check costs; Mosquitto does it in its only thread', iterations)
    .action(
      act(async (io, file: string, user: string, flags: Flags) => {
        if (flags.delete) return remove(io, file, user);
        const hash = hashOf(flags);
        const password = flags.stdin ? await firstLine() : await ask(io);
        if (password === '') throw new HoldfastError('usage.invalid', 'The password is empty');
        await setPassword(file, user, password, hash);
        io.out(`${file}: ${user} has a new password; a running gateway takes it at SIGHUP`);
        return EXIT.ok;
      }),
    );
};

function hashOf({ hash, iterations }: Flags): NewHash {
  if (hash === 'sha512-pbkdf2') return { kind: hash, ...(iterations === undefined ? {} : { iterations }) };
  if (iterations !== undefined) throw new HoldfastError('usage.invalid', '--iterations has no effect with argon2id');
  return { kind: hash };
}

async function remove(io: Io, file: string, user: string): Promise<ExitCode> {
  if (await deletePassword(file, user)) {
    io.out(`${file}: ${user} is removed; a running gateway takes it at SIGHUP`);
    return EXIT.ok;
  }
  io.err(`${file}: there is no user ${user}`);
  return EXIT.finding;
}

async function firstLine(): Promise<string> {
  const [line = ''] = (await buffer(process.stdin)).toString('utf8').split(/\r?\n/, 1);
  return line;
}

/** Twice, and without showing it. */
async function ask(io: Io): Promise<string> {
  if (!process.stdin.isTTY)
    throw new HoldfastError('usage.invalid', 'There is no terminal to ask for the password', { hint: 'use --stdin' });
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: process.stdin, output: nowhere, terminal: true, historySize: 0 });
  if (io.stop.aborted) terminal.close();
  io.stop.addEventListener('abort', () => terminal.close(), { once: true });
  const lines = terminal[Symbol.asyncIterator]();
  const next = async (question: string): Promise<string> => {
    io.err(question);
    const { value, done } = await lines.next();
    // Ctrl-C or Ctrl-D.
    if (done) throw new HoldfastError('usage.invalid', 'Given up, nothing is changed');
    return value;
  };
  try {
    const password = await next('Password (it is not shown):');
    if ((await next('The same again:')) !== password)
      throw new HoldfastError('usage.invalid', 'The two passwords are not the same, nothing is changed');
    return password;
  } finally {
    terminal.close();
  }
}

function iterations(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1 && value <= 10_000_000) return value;
  throw new InvalidArgumentError('Not a whole number from 1 to 10000000.');
}
