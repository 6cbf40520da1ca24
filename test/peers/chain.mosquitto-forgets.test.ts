/** A cloud broker that acknowledges and then loses everything: with `ack: app` the gateway's spool makes it good. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { historianFile, openGateway, openIngestProgram } from '../helpers/chain.js';
import { ask } from '../helpers/historian.js';
import { Mosquitto } from '../helpers/mosquitto.js';
import { peer } from '../helpers/peers.js';
import { Publisher } from '../helpers/publisher.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const mosquitto = peer('mosquitto');
const skip = mosquitto ? false : 'mosquitto is not installed';
const T0 = 1_700_000_000_000;

for (const protocolVersion of [4, 5] as const)
  for (const ack of ['app', 'puback'] as const)
    test(`MQTT ${protocolVersion}, ack: ${ack}: Mosquitto without persistence takes batches for an absent ingest and is killed`, {
      skip,
    }, async (t) => {
      const dir = tempDir(t);
      const cloud = await Mosquitto.open(t, mosquitto!, ['user root', 'persistence false', 'max_queued_messages 0']);
      const first = await openIngestProgram(t, dir, cloud.port, { protocolVersion });
      await until('the ingest to be connected', async () => (await first.status()).connected);
      const upstream = { protocolVersion, ack, ackTimeout: '500ms', onNoSubscribers: 'accept', batchRowsMax: 20 };
      const gateway = await openGateway(t, { dir, cloud: cloud.port, upstream });
      const port = Number(new URL((await gateway.ready()).mqtt[0]!).port);
      const publisher = new Publisher(t, () => port, {
        clientId: 'm',
        version: 5,
        qos: 1,
        window: 4,
        topic: () => 'plant/mixer/m',
        payload: (n) => JSON.stringify({ ts: T0 + n * 1_000, value: n }),
      });
      await until('the first readings', async () => (await first.status()).stored > 50);
      assert.equal((await first.end()).code, 0, first.stderr);

      const { rowsSent } = (await gateway.status()).upstream;
      await until(
        'batches that only the broker has',
        async () => (await gateway.status()).upstream.rowsSent > rowsSent + 200,
      );
      if (ack === 'app')
        await until('the state says what is missing', async () => {
          const { state, cause } = (await gateway.status()).upstream;
          return state === 'stalled' && /consumer behind it does not confirm seq \d+/.test(cause);
        });
      else {
        const { acknowledged } = (await gateway.status()).spool;
        await until('rows to be let go', async () => (await gateway.status()).spool.acknowledged > acknowledged + 50);
      }
      await cloud.end('SIGKILL');
      await cloud.start();
      const second = await openIngestProgram(t, dir, cloud.port, { protocolVersion });
      await until('the ingest to be connected', async () => (await second.status()).connected);
      await publisher.finish();
      await until('the spool to drain', async () => (await gateway.status()).spool.rows === 0, 60_000);
      await until('the cloud to be worked off', async () => {
        const { tail } = (await gateway.status()).spool;
        return (await second.status()).ledger[0].last === tail;
      });
      const { holes, missing, conflicts, quarantined, deadBatches } = await second.status();
      assert.equal((await gateway.end()).code, 0, gateway.stderr);
      assert.equal((await second.end()).code, 0, second.stderr);
      const kept = new Set(
        ask<{ value: number }>(historianFile(dir), 'SELECT value FROM readings_view').map(({ value }) => value),
      );
      const lost = [...publisher.promised].filter((n) => !kept.has(n));
      if (ack === 'puback') {
        // The control: the same accident does lose what the broker had acknowledged, and the ledger shows it.
        assert.ok(lost.length > 0 && missing >= lost.length, `${lost.length} lost, ${missing} missing`);
        return;
      }
      assert.deepEqual(
        { holes, missing, conflicts, quarantined, deadBatches },
        {
          holes: 0,
          missing: 0,
          conflicts: 0,
          quarantined: 0,
          deadBatches: 0,
        },
      );
      assert.deepEqual(lost, []);
      t.diagnostic(`${publisher.promised.size} promised, all stored`);
    });
