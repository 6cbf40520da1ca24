/** Several workers of one shared subscription on one PostgreSQL: the word of any of them is about what all have stored. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startConfirmed } from '../helpers/confirmed.js';
import { Mosquitto } from '../helpers/mosquitto.js';
import { peer } from '../helpers/peers.js';
import { askUrl, openDatabase, skipPostgres } from '../helpers/postgres.js';
import { Program } from '../helpers/program.js';
import { openSpool, reading } from '../helpers/spool.js';
import { tempDir } from '../helpers/tmp.js';
import { range } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

const mosquitto = peer('mosquitto');
const skip = skipPostgres || (mosquitto ? false : 'mosquitto is not installed');
const ROWS = 2_000;

for (const protocolVersion of [4, 5] as const)
  test(`MQTT ${protocolVersion}: three workers, one of them killed under load and one added: all rows once, all confirmed`, {
    skip,
  }, async (t) => {
    const url = await openDatabase();
    const cloud = await Mosquitto.open(t, mosquitto!, ['user root', 'max_queued_messages 0']);
    const worker = (n: number) => {
      const file = join(tempDir(t), `worker-${n}.json`);
      const config = {
        ingest: { id: `worker-${n}`, dataDir: '.' },
        source: {
          url: cloud.url,
          protocolVersion,
          topic: '$share/historian/edge/+/batch',
          backoff: { min: '20ms', max: '200ms' },
        },
        historian: { type: 'postgres', url },
        web: { listen: '127.0.0.1:0' },
      };
      writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
      return Program.open(t, 'ingest', '--config', file);
    };
    const workers = await Promise.all([1, 2, 3].map(worker));
    for (const one of workers) await until('connected', async () => (await one.status()).connected);

    const { spool } = await openSpool(t, join(tempDir(t), 'spool.db'));
    await spool.enqueue(range(1, ROWS).map((n) => reading(n)));
    const { replayer, upstream } = startConfirmed(t, spool, cloud.port, {
      protocolVersion,
      inFlightMax: 8,
      unconfirmedRowsMax: ROWS,
    });
    const left = async () => (await spool.stats()).rows;
    await until('some are stored', async () => (await left()) < ROWS - 200);
    // Its session stays, and Mosquitto goes on keeping a part of what is published for it.
    await workers[1]!.kill();
    await until('it goes on', async () => (await left()) < ROWS / 2, 60_000);
    const fourth = await worker(4);
    await until('all confirmed', async () => (await left()) === 0, 60_000);

    const [counts] = await askUrl<{ rows: number; seqs: number }>(
      url,
      'SELECT count(*) AS rows, count(DISTINCT seq) AS seqs FROM holdfast.readings',
    );
    assert.deepEqual(counts, { rows: ROWS, seqs: ROWS });
    const [source] = await askUrl<{ received: string }>(url, 'SELECT received::text AS received FROM holdfast.sources');
    assert.equal(source?.received, `{[1,${ROWS + 1})}`);
    const conflicts = await askUrl(url, 'SELECT * FROM holdfast.conflicts');
    assert.deepEqual(conflicts, []);
    const { malformed, foreign, beyond, retained } = upstream.acks;
    assert.deepEqual({ malformed, foreign, beyond, retained }, { malformed: 0, foreign: 0, beyond: 0, retained: 0 });
    assert.equal(replayer.status(0).connects, 1);
    for (const one of [workers[0]!, workers[2]!, fourth]) {
      const status = await one.status();
      t.diagnostic(`a worker says: ${status.batches} batches of all, ${status.duplicates} duplicates`);
      assert.equal((await one.end()).code, 0, one.stderr);
    }
  });
