/** The way by HTTP under SIGKILL of both ends, with a token from a file on each side. `HOLDFAST_SEED=…` repeats a run. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../src/sim/free-port.js';
import { gatewayConfig, historianFile } from '../helpers/chain.js';
import { ask } from '../helpers/historian.js';
import { Program } from '../helpers/program.js';
import { Publisher } from '../helpers/publisher.js';
import { Random } from '../helpers/random.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const KILLS = 6;
const T0 = 1_700_000_000_000;

test('by HTTP, gateway and ingest killed again and again: every promised reading is stored once', async (t) => {
  const seed = Number(process.env.HOLDFAST_SEED ?? Date.now() % 1_000_000);
  t.diagnostic(`HOLDFAST_SEED=${seed}`);
  const random = new Random(seed);
  const dir = tempDir(t);
  const [port, mqtt] = [await freePort(), await freePort()];
  writeFileSync(join(dir, 'token'), 'sesame\n', { mode: 0o600 });
  const token = { file: join(dir, 'token') };
  const upstream = { url: `http://127.0.0.1:${port}/ingest`, token, batchRowsMax: 20 };
  const ingestFile = join(dir, 'ingest.yaml');
  writeFileSync(
    ingestFile,
    JSON.stringify({
      ingest: { id: 'ingest-1', dataDir: './historian', http: { listen: `127.0.0.1:${port}`, tokens: [token] } },
      web: { listen: '127.0.0.1:0' },
    }),
    { mode: 0o600 },
  );
  const configs = { gateway: gatewayConfig({ dir, cloud: 9, mqtt, upstream }), ingest: ingestFile };
  const start = (what: 'gateway' | 'ingest') => new Program(t, [what, '--config', configs[what], '--json']);
  let [gateway, ingest] = [start('gateway'), start('ingest')];
  await Promise.all([gateway.ready(), ingest.ready()]);
  const publisher = new Publisher(t, () => mqtt, {
    clientId: 'm',
    version: 5,
    qos: 1,
    window: 8,
    topic: () => 'plant/mixer/m',
    payload: (n) => JSON.stringify({ ts: T0 + n * 1_000, value: n }),
  });
  for (let kill = 0; kill < KILLS; kill++) {
    const target = publisher.promised.size + random.int(50, 400);
    await until('promises', () => publisher.promised.size >= target, 20_000);
    await delay(random.int(0, 20));
    if (kill % 2 === 0) {
      await ingest.kill();
      ingest = start('ingest');
    } else {
      await gateway.kill();
      gateway = start('gateway');
    }
  }
  await Promise.all([gateway.ready(), ingest.ready()]);
  await publisher.finish();
  await until('the spool to drain', async () => (await gateway.status()).spool.rows === 0, 30_000);
  assert.equal((await gateway.end()).code, 0, gateway.stderr);
  const { missing, conflicts, quarantined, deadBatches, stored, duplicates, connected } = await ingest.status();
  assert.equal((await ingest.end()).code, 0, ingest.stderr);
  assert.deepEqual([missing, conflicts, quarantined, deadBatches, connected], [0, 0, 0, 0, true]);
  const kept = new Set(
    ask<{ value: number }>(historianFile(dir), 'SELECT value FROM readings_view').map(({ value }) => value),
  );
  assert.deepEqual(
    [...publisher.promised].filter((n) => !kept.has(n)),
    [],
  );
  t.diagnostic(`${publisher.promised.size} promised, ${stored} stored, ${duplicates} duplicates absorbed`);
});
