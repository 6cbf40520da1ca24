import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { Ingest } from '../../src/ingest/ingest.js';
import { silentLog } from '../../src/lib/log.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { rowsFrom } from '../helpers/batches.js';
import { stoppedClock } from '../helpers/historian.js';
import { TOPIC } from '../helpers/ingest.js';
import { askUrl, crashPostgres, openDatabase, skipPostgres as skip } from '../helpers/postgres.js';
import { source } from '../helpers/rows.js';
import { TinyBroker } from '../helpers/tiny-broker.js';
import { until } from '../helpers/wait.js';

const bytes = (gateway: string, from: number, to: number) =>
  encodeColumns(
    source(gateway, 'e1'),
    rowsFrom(from, to).map((row) => ({ ...row, asset: gateway })),
  );

test('acknowledgements keep the order of arrival, though batches of two gateways are stored side by side', {
  skip,
}, async (t) => {
  const { ingest, url, broker } = await open(t);
  broker.publish(TOPIC, bytes('a', 1, 1));
  await until('the first batch', () => broker.unacknowledged === 0);
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  t.after(() => blocker.end());
  await blocker.query("BEGIN; SELECT FROM holdfast.sources WHERE gateway = 'a' FOR UPDATE");
  broker.publish(TOPIC, bytes('a', 2, 2));
  broker.publish(TOPIC, bytes('b', 1, 5));
  await until('the second gateway to be stored', () => ingest.status().stored === 6);
  assert.deepEqual(broker.acknowledged, [1]);
  await blocker.query('COMMIT');
  await until('all acknowledged', () => broker.unacknowledged === 0);
  assert.deepEqual(broker.acknowledged, [1, 2, 3]);
  assert.equal(ingest.status().stored, 7);
});

test('a database that crashes under an ingest costs nothing: what was not acknowledged comes again', {
  skip,
}, async (t) => {
  const { ingest, url, broker } = await open(t);
  const batches = 300;
  for (let n = 0; n < batches; n++) broker.publish(TOPIC, bytes('a', n * 10 + 1, n * 10 + 10));
  await until('some batches', () => broker.acknowledged.length >= 30);
  await crashPostgres();
  await until('all acknowledged', () => broker.unacknowledged === 0, 60_000);
  assert.deepEqual(await askUrl(url, 'SELECT count(*) AS n FROM holdfast.readings'), [{ n: batches * 10 }]);
  const { holes, stored, rows, duplicates, ledger } = ingest.status();
  assert.deepEqual([holes, stored, rows], [0, batches * 10, batches * 10 + duplicates]);
  assert.deepEqual(ledger[0]?.received, [{ from: 1, to: batches * 10 }]);
});

async function open(t: Parameters<typeof TinyBroker.open>[0]) {
  const broker = await TinyBroker.open(t);
  const url = await openDatabase();
  const ingest = await Ingest.open(
    {
      clock: stoppedClock,
      historian: { type: 'postgres', url },
      broker: { url: broker.url, clientId: 'ingest-1', topics: ['edge/+/batch'], backoff: { minMs: 5, maxMs: 50 } },
    },
    silentLog,
  );
  t.after(() => ingest.close());
  return { broker, url, ingest };
}
