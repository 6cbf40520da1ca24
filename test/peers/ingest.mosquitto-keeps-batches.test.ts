import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectAsync } from 'mqtt';
import { encodeColumns } from '../../src/wire/columns.js';
import { compress } from '../../src/wire/compress.js';
import { rowsFrom } from '../helpers/batches.js';
import { openIngest, TOPIC } from '../helpers/ingest.js';
import { openMosquitto } from '../helpers/mosquitto.js';
import { peer } from '../helpers/peers.js';
import { source } from '../helpers/rows.js';
import { until } from '../helpers/wait.js';

const mosquitto = peer('mosquitto');
const skip = mosquitto ? false : 'mosquitto is not installed';

for (const protocolVersion of [4, 5] as const)
  test(`MQTT ${protocolVersion}: batches published while the ingest is away are all stored when it is back`, {
    skip,
  }, async (t) => {
    const url = await openMosquitto(t, mosquitto!, ['max_queued_messages 0']);
    const publisher = await connectAsync(url, { protocolVersion: 5 });
    t.after(() => publisher.endAsync(true));
    const publish = async (from: number, to: number) => {
      for (let first = from; first < to; first += 10)
        await publisher.publishAsync(TOPIC, await compress(encodeColumns(source(), rowsFrom(first, first + 9))), {
          qos: 1,
        });
    };

    const { ingest, path } = await openIngest(t, url, { broker: { protocolVersion } });
    await until('connected', () => ingest.status().connected);
    await publish(1, 100);
    await until('the first hundred', () => ingest.status().stored === 100);
    await ingest.close();
    await publish(101, 1500);
    const { ingest: back } = await openIngest(t, url, { broker: { protocolVersion }, historian: { path } });
    await publish(1501, 1600);
    await until('all', () => back.status().stored === 1600);
    const { holes, conflicts, duplicates, deadBatches, ledger } = back.status();
    assert.deepEqual([holes, conflicts, duplicates, deadBatches], [0, 0, 0, 0]);
    assert.deepEqual(ledger[0]?.received, [{ from: 1, to: 1600 }]);
  });
