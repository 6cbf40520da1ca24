import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { Seq } from '../../src/model/ids.js';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { configFile } from '../helpers/config-file.js';
import { startConfirmed } from '../helpers/confirmed.js';
import { openIngest } from '../helpers/ingest.js';
import { source } from '../helpers/rows.js';
import { openSpool, reading } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { range } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

test('reconcile --request: what is in the spool comes again, what has left it becomes lost, another epoch stays open', async (t) => {
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const url = `mqtt://127.0.0.1:${cloud.port}`;
  const { ingest, path } = await openIngest(t, url);
  await until('connected', () => ingest.status().connected);
  const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
  await spool.enqueue(range(1, 30).map((n) => reading(n)));
  // An earlier historian has confirmed rows 1 to 20; this one has never seen them.
  spool.acknowledge(20 as Seq);
  await spool.enqueue([reading(31)]);
  assert.equal((await spool.stats()).head, 21);
  startConfirmed(t, spool, cloud.port);
  await until('the rest', async () => (await spool.stats()).rows === 0);
  const other = encodeColumns(source('line-1', 'earlier'), await rowsOf(t, 5, 6));
  const { connectAsync } = await import('mqtt');
  const client = await connectAsync(url);
  t.after(() => client.endAsync(true));
  await client.publishAsync('edge/line-1/batch', other, { qos: 1 });
  await until('both', () => ingest.status().ledger.length === 2);
  assert.equal(ingest.status().missing, 20 + 4);

  const config = configFile(
    t,
    `ingest: { id: i }\nsource: { url: "${url}" }\nhistorian: { path: ${JSON.stringify(path)} }\n`,
  );
  const child = spawn(
    process.execPath,
    ['dist/src/main.js', 'reconcile', '--config', config, '--from', '1d', '--request', '--json'],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  // The other epoch is never answered, so the command would wait for its whole time.
  await until('the answer', () => ingest.status().missing === 4);
  child.kill('SIGINT');
  const [out] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  const requests = out
    .trimEnd()
    .split('\n')
    .flatMap((line) => JSON.parse(line).request ?? []);
  assert.deepEqual(
    requests.map(({ epoch, arrived, lost, unanswered }) => ({ epoch, arrived, lost, unanswered })),
    [
      { epoch: spool.epoch, arrived: 0, lost: 20, unanswered: 0 },
      { epoch: 'earlier', arrived: 0, lost: 0, unanswered: 4 },
    ],
  );
});

async function rowsOf(t: Parameters<typeof openSpool>[0], from: number, to: number) {
  const { spool } = await openSpool(t, join(tempDir(t), 'other.db'));
  await spool.enqueue(range(1, to).map((n) => reading(n)));
  return spool.peek((from - 1) as Seq, to - from + 1, 1 << 20);
}
