import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { assertAccounts } from './accounts.js';

/**
 * A fresh folder that goes away with the test. The accounts of every spool in it must add up then, unless the test says
 * that it has spoiled them.
 */
export function tempDir(t: TestContext, { spoiled = false } = {}): string {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-'));
  t.after(async () => {
    try {
      if (!spoiled) await assertAccounts(dir);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
  return dir;
}
