import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { checkConfig } from '../../src/config/loader.js';
import { ConfigError, formatProblem } from '../../src/config/problem.js';
import { tempDir } from './tmp.js';

/** A config file with this text in a folder of its own, readable by its owner only. */
export function configFile(t: TestContext, text: string, name = 'c.yaml'): string {
  const file = join(tempDir(t), name);
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}

/** Everything that the check says about a file, line by line, with the file's name for its path. */
export function complaints(file: string): string[] {
  try {
    return checkConfig(file).warnings.map((problem) => formatProblem({ ...problem, file: 'c.yaml' }));
  } catch (error) {
    if (error instanceof ConfigError)
      return error.problems.map((problem) => formatProblem({ ...problem, file: 'c.yaml' }));
    throw error;
  }
}
