import { join } from 'node:path';
import { test } from 'node:test';
import { ask } from '../helpers/historian.js';
import { type DeadRow, keptAside } from '../helpers/kept-aside-cases.js';
import { tempDir } from '../helpers/tmp.js';

test('SQLite: batches of another version and broken ones are kept aside on both doors, and block nothing', async (t) => {
  const path = join(tempDir(t), 'historian.db');
  await keptAside(t, { path }, async () => ask<DeadRow & object>(path, 'SELECT code, bytes FROM dead_batches'));
});
