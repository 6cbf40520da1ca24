import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { Ingest } from '../../src/ingest/ingest.js';
import { silentLog } from '../../src/lib/log.js';
import { freePort } from '../../src/sim/free-port.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { rowsFrom } from '../helpers/batches.js';
import { stoppedClock } from '../helpers/historian.js';
import { TOPIC } from '../helpers/ingest.js';
import { askUrl, openDatabase, skipPostgres as skip } from '../helpers/postgres.js';
import { source } from '../helpers/rows.js';
import { TinyBroker } from '../helpers/tiny-broker.js';
import { until } from '../helpers/wait.js';

test('an ingest that starts before its database waits for it, and acknowledges nothing meanwhile', {
  skip,
}, async (t) => {
  const broker = await TinyBroker.open(t);
  const url = new URL(await openDatabase());
  const real = Number(url.port);
  const port = await freePort();
  const away = new URL(url);
  away.port = String(port);
  const ingest = await Ingest.open(
    {
      clock: stoppedClock,
      historian: { type: 'postgres', url: away.href },
      broker: { url: broker.url, clientId: 'i', topics: ['edge/+/batch'], backoff: { minMs: 5, maxMs: 50 } },
    },
    silentLog,
  );
  t.after(() => ingest.close());
  assert.match(ingest.status().problem ?? '', /PostgreSQL cannot be used: .*ECONNREFUSED/);
  broker.publish(TOPIC, encodeColumns(source('a', 'e1'), rowsFrom(1, 10)));
  await until('the batch to be refused', () => ingest.status().problem?.includes('ECONNREFUSED'));
  assert.deepEqual(broker.acknowledged, []);
  const door = createServer((socket) => {
    const through = connect(real, '127.0.0.1');
    socket.pipe(through).pipe(socket);
    for (const one of [socket, through]) one.on('error', () => one.destroy());
    socket.on('close', () => through.destroy());
  });
  door.listen(port, '127.0.0.1');
  t.after(() => door.close());
  await until('the batch to be stored', () => broker.unacknowledged === 0 && ingest.status().stored === 10, 30_000);
  assert.deepEqual(await askUrl(url.href, 'SELECT count(*) AS n FROM holdfast.readings'), [{ n: 10 }]);
  await until('no problem to be left', () => ingest.status().problem === null);
});

test('a database that refuses for good ends the start with its reason', { skip }, async () => {
  const url = new URL(await openDatabase());
  url.pathname = '/no_such_database';
  const broker = { url: 'mqtt://127.0.0.1:1', clientId: 'i', topics: ['edge/+/batch'] };
  await assert.rejects(Ingest.open({ historian: { type: 'postgres', url: url.href }, broker }, silentLog), {
    code: 'historian.io',
    message: /no_such_database/,
  });
});
