import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleetRun } from '../bench/fleet-run.js';
import { Mosquitto } from '../helpers/mosquitto.js';
import { peer } from '../helpers/peers.js';
import { openDatabase, skipPostgres } from '../helpers/postgres.js';
import { tempDir } from '../helpers/tmp.js';

const mosquitto = peer('mosquitto');
const skip = mosquitto ? skipPostgres : 'mosquitto is not installed';

test('fifty gateways come back at once, workers are killed, added and parked: nothing is lost, every hour is complete', {
  skip,
}, async (t) => {
  const lines = ['max_queued_messages 0', 'max_queued_bytes 0'];
  const broker = await Mosquitto.open(t, mosquitto!, lines);
  const result = await fleetRun({
    url: await openDatabase(),
    brokerPort: broker.port,
    dir: tempDir(t),
    workers: 3,
    gateways: 50,
    fresh: 5,
    backlog: '1h',
    backlogMs: 3_600_000,
    interval: '10s',
    metrics: 4,
    live: '12s',
    note: (text) => t.diagnostic(text),
  });
  const { fleet, lost, conflicts, metricHours } = result;
  t.diagnostic(JSON.stringify(result));
  assert.equal(fleet.done, true);
  // An hour and some seconds of 50 gateways, and the seconds of 5 more.
  assert.ok(fleet.readings > 72_000, `${fleet.readings} readings`);
  // Ten lines failed with a full window; what was on its way went out again and was absorbed.
  assert.ok(fleet.repeatedBatches >= 10, `${fleet.repeatedBatches} batches sent again`);
  assert.ok(result.duplicates > 0);
  // What the parked worker held was not stuck for ever: it came with the worker's client id.
  assert.ok(result.parked > 0, `${result.parked} rows were parked`);
  assert.deepEqual({ lost, conflicts, incomplete: metricHours.other }, { lost: 0, conflicts: 0, incomplete: 0 });
  assert.ok(metricHours.complete >= 55 * 4);
});
