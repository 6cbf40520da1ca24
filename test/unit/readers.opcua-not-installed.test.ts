import assert from 'node:assert/strict';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLog } from '../../src/lib/log.js';
import { tempDir } from '../helpers/tmp.js';

test('where the OPC UA stack is not installed, the error says what to install', async (t) => {
  // The same files in a place from where no package is to be found.
  const dir = tempDir(t);
  mkdirSync(join(dir, 'readers/opcua'), { recursive: true });
  writeFileSync(join(dir, 'package.json'), '{ "type": "module" }');
  cpSync('dist/src/lib', join(dir, 'lib'), { recursive: true });
  cpSync('dist/src/readers/opcua/stack.js', join(dir, 'readers/opcua/stack.js'));
  const { loadStack } = await import(join(dir, 'readers/opcua/stack.js'));
  await assert.rejects(
    () => loadStack(silentLog),
    (error: { code: string; hint: string }) =>
      error.code === 'config.invalid' && error.hint.includes('npm install node-opcua-client@'),
  );
});
