import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { SimulatedPlc } from '../../src/sim/plc.js';
import { client, collect } from '../helpers/broker.js';
import { lineReader, openGateway, openIngestProgram } from '../helpers/chain.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

/** Device seconds that are polled and published through; long enough for every timer that runs each second. */
const POLLS = 30;
const WARNING = 40;

test('a run in which nothing is wrong says nothing that an operator would have to look at', async (t) => {
  const dir = tempDir(t);
  const plc = await SimulatedPlc.open({ port: 0 });
  t.after(() => plc.close());
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const ingest = await openIngestProgram(t, dir, cloud.port);
  await until('the ingest to be connected', async () => (await ingest.status()).connected);
  const gateway = await openGateway(t, { dir, cloud: cloud.port, readers: [lineReader(plc.port)] });
  const url = (await gateway.ready()).mqtt[0]!;
  const subscriber = await client(t, { url }, { protocolVersion: 5 });
  await subscriber.subscribeAsync('plant/#', { qos: 1 });
  const seen = collect(subscriber);
  const publishers = await Promise.all(
    ([4, 5] as const).map((protocolVersion) => client(t, { url }, { protocolVersion })),
  );
  for (let n = 0; plc.served().requests < POLLS * 8; n++) {
    for (const [i, publisher] of publishers.entries()) {
      const payload = JSON.stringify({ ts: 1_767_225_600_000 + n, value: n });
      await publisher.publishAsync(`plant/mixer/m${i}`, payload, { qos: i === 0 ? 1 : 2 });
    }
  }
  const { state, causes } = await gateway.status();
  assert.deepEqual({ state, causes }, { state: 'ok', causes: [] });
  await Promise.all([subscriber, ...publishers].map((one) => one.endAsync()));
  assert.ok(seen.length > 0);

  assert.deepEqual(await gateway.end(), { code: 0, signal: null });
  await until('the cloud to hand over everything', () => cloud.stats().queued === 0);
  assert.deepEqual(await ingest.end(), { code: 0, signal: null });
  assert.deepEqual(gateway.logged(WARNING), []);
  assert.deepEqual(ingest.logged(WARNING), []);
  for (const program of [gateway, ingest]) assert.ok(program.logged(30).length > 0, 'it does log');
});
