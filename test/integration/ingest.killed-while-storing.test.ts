import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { batchOf, rowsFrom } from '../helpers/batches.js';
import { ask, openHistorian } from '../helpers/historian.js';
import { tempDir } from '../helpers/tmp.js';

test('killed in the middle again and again, it has all that it had called durable, in whole batches', async (t) => {
  const path = join(tempDir(t), 'historian.db');
  let durable = 0;
  for (let round = 1; round <= 5; round++) {
    const child = spawn(process.execPath, ['dist/test/fixtures/ingest-child.js', path], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    let lines = 0;
    const reader = createInterface(child.stdout);
    reader.on('line', (line) => {
      durable = Number(line);
      if (++lines === 5 + round * 7) child.kill('SIGKILL');
    });
    await Promise.all([once(child, 'exit'), once(reader, 'close')]);
    assert.ok(lines >= 5 + round * 7);

    const { historian } = await openHistorian(t, { path });
    const [entry] = historian.ledger();
    assert.ok((entry?.last ?? 0) >= durable, `${entry?.last} of ${durable}`);
    assert.deepEqual([entry?.holes, (entry?.last ?? 1) % 10], [[], 0]);
    const [{ n }] = ask(path, 'SELECT count(*) AS n FROM readings') as [{ n: number }];
    assert.deepEqual([n, historian.totals().stored], [entry?.last, entry?.last]);
    // What was in flight comes again.
    const { duplicates } = await historian.ingest(batchOf(rowsFrom(durable - 9, durable)));
    assert.equal(duplicates, 10);
    await historian.close();
  }
});
