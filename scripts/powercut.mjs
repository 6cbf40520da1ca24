// The power-cut checks for as long as it takes: `npm run powercut`, or `npm run powercut -- --effort 100 --seed 7`.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { effort: { type: 'string' }, seed: { type: 'string' } } });
const effort = values.effort ?? '20';
const seed = values.seed ?? String(Math.floor(Math.random() * 2 ** 32));
console.log(`power cuts with seed ${seed}, ${effort} times the effort of CI`);
const files = readdirSync('dist/test/crash')
  .filter((file) => file.endsWith('.test.js'))
  .map((file) => `dist/test/crash/${file}`);
const run = spawnSync(process.execPath, ['--enable-source-maps', '--test', '--test-concurrency=2', ...files], {
  stdio: 'inherit',
  env: { ...process.env, HOLDFAST_CUT_EFFORT: effort, HOLDFAST_CUT_SEED: seed },
});
process.exit(run.status ?? 70);
