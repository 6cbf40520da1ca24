/** The small C programs of these tests, compiled when they are needed. */
import { execFileSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import type { TestContext } from 'node:test';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';

const SOURCES = resolve('test/crash/native');
const gcc = peer('gcc');

export const skipWithoutGcc = gcc ? false : 'gcc is not installed';

/** The path of the recorder, to be preloaded. */
export function buildRecorder(t: TestContext): string {
  return compile(t, 'recorder.c', 'recorder.so', ['-shared', '-fPIC'], ['-ldl', '-lpthread']);
}

/** The path of a program that stops the file system of a mount point dead. */
export function buildShutdown(t: TestContext): string {
  return compile(t, 'shutdown.c', 'shutdown');
}

function compile(
  t: TestContext,
  source: string,
  target: string,
  flags: string[] = [],
  libraries: string[] = [],
): string {
  const path = join(tempDir(t), target);
  execFileSync(gcc as string, ['-O2', '-Wall', '-Werror', ...flags, '-o', path, join(SOURCES, source), ...libraries]);
  return path;
}
