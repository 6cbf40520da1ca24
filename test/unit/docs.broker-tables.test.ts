import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

/** A test as the tables name it: `file`: title, or the beginning of it up to what the test fills in. */
const NAMED = /`([a-z/.-]+)`: ([^;|]+)/g;

function sourceOf(name: string): string {
  if (name.startsWith('conformance/')) return readFileSync(`test/${name}.ts`, 'utf8');
  const folders = readdirSync('test').map((folder) => `test/${folder}/${name}.test.ts`);
  const path = folders.find((file) => existsSync(file));
  return path ? readFileSync(path, 'utf8') : '';
}

test('every row of the tables about the broker names a test, and every test that they name exists', () => {
  const rows = readFileSync('docs/broker.md', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith('| ---'));
  const missing: string[] = [];
  let named = 0;
  let proven = false;
  for (const row of rows) {
    const cells = row.split('|').map((cell) => cell.trim());
    const last = cells.at(-2) as string;
    const tests = [...last.matchAll(NAMED)];
    if (last === 'test') proven = true;
    // The header of a table of figures.
    else if (/^(\||Aedes 2|RSS)/.test(last)) proven = false;
    else if (proven && tests.length === 0) missing.push(`no test: ${row}`);
    for (const [, name = '', title = ''] of tests) {
      named++;
      // Quotes may be written either way in the source.
      const source = sourceOf(name).replaceAll("\\'", "'");
      if (!source.includes(title.trim())) missing.push(`${name}: ${title.trim()}`);
    }
  }
  assert.deepEqual(missing, []);
  assert.ok(named > 70, `only ${named} tests are named`);
});
