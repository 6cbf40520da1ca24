/**
 * `ack: app` under SIGKILL of both ends and a broker between them that forgets everything now and then: what a publisher was
 * promised is in the historian afterwards. `HOLDFAST_SEED=…` repeats the moments of a run.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { freePort } from '../../src/sim/free-port.js';
import { gatewayConfig, historianFile, ingestConfig } from '../helpers/chain.js';
import { ask } from '../helpers/historian.js';
import { Program } from '../helpers/program.js';
import { Publisher } from '../helpers/publisher.js';
import { Random } from '../helpers/random.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const BLOWS = 9;
const T0 = 1_700_000_000_000;

test('gateway, broker and ingest are struck down again and again: every promised reading is stored', async (t) => {
  const seed = Number(process.env.HOLDFAST_SEED ?? Date.now() % 1_000_000);
  t.diagnostic(`HOLDFAST_SEED=${seed}`);
  const random = new Random(seed);
  const dir = tempDir(t);
  const cloudPort = await freePort();
  let cloud = await FaultBroker.open({ port: cloudPort });
  t.after(() => cloud.close());
  const mqtt = await freePort();
  const upstream = { ack: 'app', ackTimeout: '500ms', onNoSubscribers: 'accept', batchRowsMax: 20 };
  const configs = {
    gateway: gatewayConfig({ dir, cloud: cloudPort, mqtt, upstream }),
    ingest: ingestConfig(dir, cloudPort),
  };
  const start = (what: 'gateway' | 'ingest') => new Program(t, [what, '--config', configs[what], '--json']);
  let [gateway, ingest] = [start('gateway'), start('ingest')];
  await Promise.all([gateway.ready(), ingest.ready()]);
  const publishers = ([4, 5] as const).map(
    (version) =>
      new Publisher(t, () => mqtt, {
        clientId: `m${version}`,
        version,
        qos: 1,
        window: 4,
        topic: () => `plant/mixer/m${version}`,
        payload: (n) => JSON.stringify({ ts: T0 + n * 1_000, value: n }),
      }),
  );
  const promises = () => publishers.reduce((sum, { promised }) => sum + promised.size, 0);
  for (let blow = 0; blow < BLOWS; blow++) {
    const target = promises() + random.int(50, 400);
    await until('promises', () => promises() >= target, 20_000);
    await delay(random.int(0, 20));
    if (blow % 3 === 0) {
      await gateway.kill();
      gateway = start('gateway');
    } else if (blow % 3 === 1) {
      await ingest.kill();
      ingest = start('ingest');
    } else {
      await cloud.close();
      cloud = await FaultBroker.open({ port: cloudPort });
    }
  }
  await Promise.all([gateway.ready(), ingest.ready()]);
  await Promise.all(publishers.map((publisher) => publisher.finish()));
  await until('the spool to drain', async () => (await gateway.status()).spool.rows === 0, 60_000);
  assert.equal((await gateway.end()).code, 0, gateway.stderr);
  const { holes, missing, conflicts, quarantined, deadBatches, stored, duplicates } = await ingest.status();
  assert.equal((await ingest.end()).code, 0, ingest.stderr);
  assert.deepEqual([missing, conflicts, quarantined, deadBatches], [0, 0, 0, 0], `${holes} holes`);
  for (const { id, promised } of publishers) {
    const sql = 'SELECT value FROM readings_view WHERE metric_name = ?';
    const kept = new Set(ask<{ value: number }>(historianFile(dir), sql, id).map(({ value }) => value));
    assert.deepEqual(
      [...promised].filter((n) => !kept.has(n)),
      [],
      `${id} was promised what is gone`,
    );
  }
  t.diagnostic(`${promises()} promised, ${stored} stored, ${duplicates} duplicates absorbed`);
});
