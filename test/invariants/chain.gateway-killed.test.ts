/**
 * The promise under SIGKILL, as a publisher sees it on the wire: what was acknowledged is in the spool file or at the cloud,
 * whatever the moment at which the process was gone. `HOLDFAST_SEED=…` repeats the moments of a run.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { gatewayConfig, spoolFile } from '../helpers/chain.js';
import { Program } from '../helpers/program.js';
import { Publisher } from '../helpers/publisher.js';
import { Random } from '../helpers/random.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';
import { Witness } from '../helpers/witness.js';

const KILLS = 5;

for (const cloudIs of ['reachable', 'cut'] as const)
  test(`killed again and again under load, the cloud ${cloudIs}: nothing acknowledged is lost`, async (t) => {
    const seed = Number(process.env.HOLDFAST_SEED ?? Date.now() % 1_000_000);
    t.diagnostic(`HOLDFAST_SEED=${seed}`);
    const random = new Random(seed);
    const witness = new Witness();
    const cloud = await FaultBroker.open({
      port: 0,
      onPublish: witness.take,
      faults: { blackHole: cloudIs === 'cut' },
    });
    t.after(() => cloud.close());
    const dir = tempDir(t);
    const config = gatewayConfig({ dir, cloud: cloud.port, upstream: { onNoSubscribers: 'accept' } });

    let port = 1;
    const publishers = everyKind(t, () => port);
    const promises = () => publishers.reduce((sum, { promised }) => sum + promised.size, 0);
    for (let kill = 1; kill <= KILLS; kill++) {
      const gateway = new Program(t, ['gateway', '--config', config, '--json']);
      // Every other one is killed while it opens what the last one left.
      if (kill % 2 === 0) await delay(random.int(20, 600));
      else {
        port = portOf(await gateway.ready());
        const target = promises() + random.int(200, 3_000);
        await until('acknowledgements', () => promises() >= target);
        await delay(random.int(0, 10));
      }
      await gateway.kill();
    }

    const gateway = await Program.open(t, 'gateway', '--config', config);
    port = portOf(await gateway.ready());
    await Promise.all(publishers.map((publisher) => publisher.finish()));
    if (cloudIs === 'reachable')
      await until('the spool to drain', async () => (await gateway.status()).spool.rows === 0);
    assert.deepEqual(await gateway.end(), { code: 0, signal: null }, gateway.stderr);

    const { rows, received, acknowledged, dead, counted } = witness.readSpool(spoolFile(dir));
    assert.equal(received, rows + acknowledged + dead);
    assert.deepEqual([rows, dead], [counted, 0]);
    assert.deepEqual(witness.reused, []);
    if (cloudIs === 'reachable') assert.equal(rows, 0);
    else assert.deepEqual([witness.atCloud.size, acknowledged], [0, 0]);
    // Nothing left the spool that the cloud does not have: every seq that was ever given is in one of the two.
    assert.equal(witness.contents.size, received);

    const copies = witness.copies();
    for (const publisher of publishers) {
      assert.equal(publisher.sessionsLost, 0, `${publisher.id} lost its session`);
      const lost = [...publisher.promised].filter((n) => !copies.has(publisher.payload(n)));
      assert.deepEqual(lost, [], `${publisher.id} was promised what is gone`);
      if (publisher.qos === 1) continue;
      const twice = [...publisher.promised].filter((n) => copies.get(publisher.payload(n)) !== 1);
      assert.deepEqual(twice, [], `${publisher.id} published with QoS 2 and has copies`);
    }
    t.diagnostic(`${promises()} acknowledged, ${received} rows, ${received - copies.size} repeated by QoS 1`);
  });

function everyKind(t: TestContext, port: () => number): Publisher[] {
  return ([4, 5] as const).flatMap((version) =>
    ([1, 2] as const).flatMap((qos) =>
      [1, 50].map(
        (window) => new Publisher(t, port, { clientId: `v${version}q${qos}w${window}`, version, qos, window }),
      ),
    ),
  );
}

function portOf({ mqtt }: { mqtt: string[] }): number {
  return Number(new URL(mqtt[0]!).port);
}
