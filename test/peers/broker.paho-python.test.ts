import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { openPlant } from '../helpers/broker.js';
import { peerWith } from '../helpers/peers.js';

const run = promisify(execFile);
const python = peerWith('/usr/bin/python3', ['-c', 'import paho.mqtt.client'], 'python3-paho-mqtt');

for (const version of [4, 5]) {
  test(`a client on paho for Python speaks to the broker (version ${version})`, { skip: python.skip }, async (t) => {
    const plant = await openPlant(t);
    const { stdout } = await run(python.path, ['test/fixtures/paho_client.py', String(plant.port), String(version)]);
    const user =
      version === 5
        ? [
            ['b', '1'],
            ['a', '2'],
          ]
        : null;
    const expected = [0, 1, 2].flatMap((qos) => ['', 'r'].map((rest) => [`plant/${qos}${rest}`, `${qos}`, qos, user]));
    assert.deepEqual(JSON.parse(stdout), expected);
    const { retained, sessions, subscriptions } = plant.broker.status();
    assert.deepEqual([retained, sessions, subscriptions], [3, 1, 1]);
    assert.equal((await plant.rows()).length, 6);
  });
}
