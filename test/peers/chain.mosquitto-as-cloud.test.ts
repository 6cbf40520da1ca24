import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { reconcile } from '../../src/sim/demo/reconcile.js';
import { SimulatedPlc } from '../../src/sim/plc.js';
import { historianFile, lineReader, openGateway, openIngestProgram, spoolFile } from '../helpers/chain.js';
import { ask } from '../helpers/historian.js';
import { Mosquitto } from '../helpers/mosquitto.js';
import { peer } from '../helpers/peers.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const mosquitto = peer('mosquitto');
const skip = mosquitto ? false : 'mosquitto is not installed';

for (const protocolVersion of [4, 5] as const)
  test(`MQTT ${protocolVersion} over a real Mosquitto: the ingest is away, the broker is restarted, and no value of the PLC is missing`, {
    skip,
  }, async (t) => {
    const dir = tempDir(t);
    const truthFile = join(dir, 'truth.ndjson');
    const plc = await SimulatedPlc.open({ port: 0, truthFile });
    t.after(() => plc.close());
    const cloud = await Mosquitto.open(t, mosquitto!, [
      // Started as root it would change to a user who may not write here.
      'user root',
      'persistence true',
      `persistence_location ${tempDir(t)}/`,
      'max_queued_messages 0',
      'max_inflight_messages 100',
    ]);
    const first = await openIngestProgram(t, dir, cloud.port, { protocolVersion });
    await until('the ingest to be connected', async () => (await first.status()).connected);
    const readers = [lineReader(plc.port)];
    const gateway = await openGateway(t, { dir, cloud: cloud.port, readers, upstream: { protocolVersion } });
    const acknowledged = async (more: number) => {
      const target = (await gateway.status()).spool.acknowledged + more;
      await until('rows to be acknowledged', async () => (await gateway.status()).spool.acknowledged >= target);
    };
    await until('the first readings', async () => (await first.status()).stored > 200);
    assert.equal((await first.end()).code, 0, first.stderr);
    await acknowledged(300);
    await cloud.end();
    const { spool } = await gateway.status();
    await until('rows to wait', async () => (await gateway.status()).spool.rows >= spool.rows + 200);
    await cloud.start();
    await acknowledged(300);

    const second = await openIngestProgram(t, dir, cloud.port, { protocolVersion });
    const { rows } = await second.status();
    await until('what the broker has kept', async () => (await second.status()).rows > rows + 600);
    assert.equal((await gateway.end()).code, 0, gateway.stderr);
    const served = plc.served().readings;
    await until('everything to arrive', async () => (await second.status()).stored >= served);
    const { stored, holes, conflicts, quarantined, deadBatches } = await second.status();
    assert.equal((await second.end()).code, 0, second.stderr);
    assert.deepEqual(
      { stored, holes, conflicts, quarantined, deadBatches },
      { stored: served, holes: 0, conflicts: 0, quarantined: 0, deadBatches: 0 },
    );
    await plc.close();
    const { assets } = reconcile({ truthFile, historianFile: historianFile(dir), spoolFile: spoolFile(dir) });
    // A busy machine may skip a poll, which is no loss of what was served, and a record says so.
    assert.deepEqual(ask(historianFile(dir), "SELECT * FROM gaps WHERE reason <> 'polls-skipped'"), []);
    for (const { asset, lost, foreign, produced } of assets) {
      assert.ok(produced > 0);
      assert.deepEqual({ lost, foreign }, { lost: 0, foreign: 0 }, asset);
    }
  });
