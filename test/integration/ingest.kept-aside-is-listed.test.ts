import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Kept } from '../../src/ingest/records.js';
import { configFile } from '../helpers/config-file.js';
import { openHistorian } from '../helpers/historian.js';
import { keptIsListed } from '../helpers/kept-list-cases.js';
import { Program } from '../helpers/program.js';

test('holdfast ingest quarantine, conflicts and dead list what was kept aside, and why', async (t) => {
  const { historian, path } = await openHistorian(t);
  const config = configFile(
    t,
    `ingest: { id: i }\nsource: { url: "mqtt://127.0.0.1:1" }\nhistorian: { path: ${JSON.stringify(path)} }\n`,
  );
  await keptIsListed(historian, async (kind, limit) => {
    const program = new Program(t, ['ingest', kind, '--config', config, '--limit', `${limit}`, '--json']);
    assert.equal((await program.ended).code, 0, program.stderr);
    const rows = program.lines.slice(0, -1) as unknown as Kept['rows'];
    return { counts: (program.lines.at(-1) as unknown as Kept).counts, rows };
  });
  const text = await new Program(t, ['ingest', 'conflicts', '--config', config]).text();
  assert.match(
    text,
    /^value {2}press01\/temperature {2}\S+ {2}2\.5 \(quality 192\), and the reading has 1\.5 {2}line-1\/e1 seq 2$/m,
  );
  assert.match(text, /^value: 1$/m);
  assert.equal((await new Program(t, ['ingest', 'dead']).ended).code, 64);
});
