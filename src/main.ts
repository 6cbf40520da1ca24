#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import type { Act, Io } from './cli/command.js';
import { commands } from './cli/commands.js';
import { EXIT, type ExitCode, HoldfastError, messageOf } from './lib/errors.js';

const stop = new AbortController();
const hurry = new AbortController();
const onSignal = () => (stop.signal.aborted ? hurry : stop).abort();
process.on('SIGTERM', onSignal);
process.on('SIGINT', onSignal);
// Started by another process of this program: end in order when that one has gone.
if (process.channel) {
  process.on('disconnect', onSignal);
  process.channel.unref();
}

// A reader that goes away (`holdfast decode … | head`) ends the program quietly, as it does for other tools.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? EXIT.ok : EXIT.io));

const io: Io = {
  out: (line) => void process.stdout.write(`${line}\n`),
  err: (line) => void process.stderr.write(`${line}\n`),
  stop: stop.signal,
  hurry: hurry.signal,
  onReload: (callback) => void process.on('SIGHUP', callback),
  interactive: process.stdout.isTTY === true,
};

function complain(error: unknown): ExitCode {
  io.err(`holdfast: ${messageOf(error)}`);
  if (error instanceof HoldfastError) {
    if (error.hint) io.err(`  hint: ${error.hint}`);
    if (error.exit !== EXIT.internal) return error.exit;
  }
  if (error instanceof Error && error.stack) io.err(error.stack);
  return EXIT.internal;
}

const act: Act =
  (action) =>
  async (...args) => {
    process.exitCode = await action(io, ...args).catch(complain);
  };

const program = new Command('holdfast')
  .description('MQTT edge bridge: durable before acknowledged, deleted only when the cloud has it.')
  .exitOverride()
  .showSuggestionAfterError();
for (const command of commands) command(program, act);

try {
  await program.parseAsync(process.argv);
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  else process.exitCode = complain(error);
}
