import type { TestContext } from 'node:test';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { SimulatedPlc } from '../../src/sim/plc.js';
import { lineReader, openGateway, openIngestProgram } from './chain.js';
import { tempDir } from './tmp.js';
import { until } from './wait.js';

/** The whole chain as programs, with readings that have come through; the web addresses of both ends. */
export async function openRunning(t: TestContext) {
  const plc = await SimulatedPlc.open({ host: '127.0.0.1', port: 0, seed: 1 });
  t.after(() => plc.close());
  const cloud = await FaultBroker.open({ host: '127.0.0.1', port: 0 });
  t.after(() => cloud.close());
  const ingest = await openIngestProgram(t, tempDir(t), cloud.port);
  const gateway = await openGateway(t, { dir: tempDir(t), cloud: cloud.port, readers: [lineReader(plc.port)] });
  await until('readings in the historian', async () => (await ingest.status()).stored > 100, 20_000);
  await until('an acknowledgement', async () => (await gateway.status()).spool.acknowledged > 100, 20_000);
  const web = { gateway: (await gateway.ready()).web!, ingest: (await ingest.ready()).web! };
  return { gateway, ingest, web };
}
