// Runs the compiled tests. `npm test`, or `npm test -- spool replayer` for the files whose path contains one of the words.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';

const words = process.argv.slice(2);
const files = readdirSync('dist/test', { recursive: true })
  .map((file) => `dist/test/${String(file).replaceAll('\\', '/')}`)
  .filter((file) => file.endsWith('.test.js'))
  .filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
  .sort();
if (files.length === 0) {
  console.error(`No test file matches ${words.join(', ')}`);
  process.exit(64);
}
const run = spawnSync(
  process.execPath,
  ['--enable-source-maps', '--test', '--test-concurrency=2', '--test-timeout=300000', ...files],
  { stdio: 'inherit' },
);
process.exit(run.status ?? 70);
