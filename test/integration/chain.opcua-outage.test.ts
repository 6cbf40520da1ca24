import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { historianFile, openGateway, openIngestProgram } from '../helpers/chain.js';
import { ask } from '../helpers/historian.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';
import { UaServer } from './readers.opcua-rig.js';

test('values of an OPC UA server reach the historian through its outage, and a gap says what is not there', async (t) => {
  const server = await UaServer.open(t);
  const dir = tempDir(t);
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const ingest = await openIngestProgram(t, dir, cloud.port);
  await until('the ingest to be connected', async () => (await ingest.status()).connected);
  const reader = {
    type: 'opcua',
    url: server.url,
    timeout: '1s',
    keepAlive: '200ms',
    backoff: { min: '50ms', max: '200ms' },
    devices: [
      {
        asset: 'press',
        groups: [
          {
            every: '50ms',
            sampling: '0ms',
            queue: 1000,
            tags: ['Count', 'Total', 'Order'].map((name) => ({ name, node: `nsu=urn:plant;s=${name}` })),
          },
        ],
      },
    ],
  };
  const gateway = await openGateway(t, { dir, cloud: cloud.port, readers: [reader] });
  const counts = () =>
    ask<{ value: number | null }>(
      historianFile(dir),
      "SELECT value FROM readings_view WHERE metric_name = 'Count' AND value IS NOT NULL ORDER BY device_ts",
    ).map(({ value }) => value);
  const burst = async (from: number) => {
    const values = Array.from({ length: 50 }, (_, i) => from + i);
    await server.tell({ burst: { name: 'Count', values } });
    await until(`${from} and on to be stored`, () => counts().includes(from + 49), 30_000);
    return values;
  };
  await until('the first value', () => counts().includes(7), 30_000);
  const first = await burst(100);
  await server.kill();
  const state = async () => (await gateway.status()).readers[0]?.state;
  await until('the outage to be seen', async () => (await state()) === 'offline', 30_000);
  await server.start({ before: ['urn:other'] });
  await until('the server to be read again', async () => (await state()) === 'online', 30_000);
  const second = await burst(200);
  await until('the gap', () => ask(historianFile(dir), 'SELECT * FROM gaps').length > 0, 30_000);

  assert.deepEqual(counts(), [7, ...first, 7, ...second]);
  const gaps = ask<{ reason: string }>(historianFile(dir), 'SELECT * FROM gaps');
  assert.deepEqual(
    gaps.map(({ reason }) => reason),
    ['device-unreachable'],
  );
  assert.equal((await gateway.end()).code, 0, gateway.stderr);
  const { holes, conflicts, quarantined } = await ingest.status();
  assert.deepEqual({ holes, conflicts, quarantined }, { holes: 0, conflicts: 0, quarantined: 0 });
  assert.equal((await ingest.end()).code, 0, ingest.stderr);
});
