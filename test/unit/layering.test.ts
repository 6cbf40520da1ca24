import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

/** Who may import whom. A room may always import itself. `main` is the file src/main.ts. */
const ARROWS: Record<string, readonly string[]> = {
  main: ['cli', 'lib'],
  cli: ['gateway', 'ingest', 'sim', 'config', 'wire', 'model', 'lib'],
  gateway: ['readers', 'broker', 'bridge', 'web', 'spool', 'store', 'wire', 'config', 'model', 'lib'],
  ingest: ['wire', 'web', 'config', 'model', 'lib'],
  bridge: ['spool', 'wire', 'model', 'lib'],
  spool: ['store', 'model', 'lib'],
  broker: ['store', 'wire', 'model', 'lib'],
  readers: ['wire', 'model', 'lib'],
  web: ['wire', 'model', 'lib'],
  store: ['model', 'lib'],
  wire: ['model', 'lib'],
  config: ['model', 'lib'],
  sim: ['model', 'lib'],
  model: ['lib'],
  lib: ['model'],
};

function* imports(): Generator<{ file: string; from: string; to: string }> {
  for (const entry of readdirSync('src', { recursive: true })) {
    const file = String(entry).replaceAll('\\', '/');
    if (!file.endsWith('.ts')) continue;
    const from = file.includes('/') ? (file.split('/')[0] as string) : file.replace(/\.ts$/, '');
    for (const [, path] of readFileSync(join('src', file), 'utf8').matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)) {
      const target = join('src', file, '..', path as string);
      yield { file, from, to: target.split('/')[1] as string };
    }
  }
}

test('imports follow the arrows of the architecture', () => {
  const wrong = [...imports()].filter(({ from, to }) => from !== to && !ARROWS[from]?.includes(to));
  assert.deepEqual(wrong, []);
});

test('only main.ts touches the process arguments and the exit code', () => {
  const offenders = readdirSync('src', { recursive: true })
    .map(String)
    .filter((file) => file.endsWith('.ts') && file !== 'main.ts')
    .filter((file) => /process\.(argv|exitCode)/.test(readFileSync(join('src', file), 'utf8')));
  assert.deepEqual(offenders, []);
});
