/** Batches that no ingest of this version can take, on each door, for either historian. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { connectAsync } from 'mqtt';
import { Ingest } from '../../src/ingest/ingest.js';
import type { HistorianOptions } from '../../src/ingest/open-historian.js';
import type { Log } from '../../src/lib/log.js';
import { silentLog } from '../../src/lib/log.js';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { type Ack, parseAck } from '../../src/wire/ack.js';
import { encodeColumns } from '../../src/wire/columns.js';
import { compress } from '../../src/wire/compress.js';
import { pack, unpack } from '../../src/wire/msgpack.js';
import { rowsFrom } from './batches.js';
import { stoppedClock } from './historian.js';
import { source } from './rows.js';
import { until } from './wait.js';

export interface DeadRow {
  readonly code: string;
  readonly bytes: Uint8Array;
}

const batch = (from: number, to: number) => encodeColumns(source(), rowsFrom(from, to), { ack: true });
const changed = (from: number, to: number, over: object) =>
  Buffer.from(pack({ ...(unpack(batch(from, to)) as object), ...over }));

/** On both doors: kept with its bytes, counted, alarmed, told to the gateway where it is known, and in nobody's way. */
export async function keptAside(t: TestContext, historian: HistorianOptions, dead: () => Promise<DeadRow[]>) {
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const warnings: string[] = [];
  const log: Log = {
    ...silentLog,
    debug() {},
    info() {},
    error() {},
    warn: (_, text) => warnings.push(text),
    child: () => log,
  };
  const ingest = await Ingest.open(
    {
      clock: stoppedClock,
      historian,
      broker: { url: `mqtt://127.0.0.1:${cloud.port}`, clientId: 'ingest-1', topics: ['edge/+/batch'] },
      http: { listen: '127.0.0.1:0', path: '/ingest', bodyBytesMax: 1024 * 1024 },
    },
    log,
  );
  t.after(() => ingest.close());
  await until('connected', () => ingest.status().connected);
  const acks: Ack[] = [];
  const client = await connectAsync(`mqtt://127.0.0.1:${cloud.port}`);
  t.after(() => client.endAsync(true));
  client.on('message', (_, bytes) => acks.push(parseAck(bytes)!));
  await client.subscribeAsync('edge/line-1/ack', { qos: 1 });
  const publish = (bytes: Buffer) => client.publishAsync('edge/line-1/batch', bytes, { qos: 1 });
  const post = async (bytes: Uint8Array) => {
    const response = await fetch(ingest.httpUrl!, { method: 'POST', body: bytes });
    return { status: response.status, text: await response.text() };
  };

  await publish(batch(1, 10));
  await until('the first acknowledgement', () => acks.some(({ through }) => through === 10));
  const future = await compress(changed(11, 20, { v: 2, layout: 'new' }));
  const broken = changed(21, 30, { n: 7 });
  const noise = Buffer.from([0x1f, 0x8b, 8, 1, 2, 3]);
  for (const bytes of [future, broken, noise]) await publish(bytes);
  await until('all are kept', () => ingest.status().deadBatches === 3);
  await publish(batch(31, 40));
  await until('it goes on', () => acks.some(({ through }) => through === 40));
  const refusals = acks.flatMap(({ refused }) => refused ?? []);
  assert.deepEqual(
    refusals.map(({ from, to }) => [from, to]),
    [
      [11, 20],
      [21, 30],
    ],
  );
  assert.match(refusals[0]!.reason, /format 2/);
  assert.deepEqual(acks.at(-1)?.missing, [{ from: 11, to: 30 }], 'what was kept aside is not acknowledged');

  const answers = [await post(changed(41, 50, { v: 3 })), await post(changed(51, 60, { n: 1 })), await post(noise)];
  assert.deepEqual(
    answers.map(({ status }) => status),
    [422, 400, 400],
  );
  assert.match(answers[0]!.text, /wire.version.*kept aside/);
  assert.equal((await post(batch(61, 70))).status, 200);

  const kept = await dead();
  const codes = ['wire.malformed', 'wire.malformed', 'wire.malformed', 'wire.version', 'wire.version'];
  // The same noise came on another topic: it is kept once for each.
  assert.deepEqual(kept.map(({ code }) => code).sort(), ['wire.malformed', ...codes]);
  for (const bytes of [future, broken, noise])
    assert.ok(
      kept.some((row) => Buffer.from(row.bytes).equals(bytes)),
      'every byte is there',
    );
  const { rows, deadBatches, missing } = ingest.status();
  assert.deepEqual({ rows, deadBatches, missing }, { rows: 30, deadBatches: 6, missing: 40 });
  assert.ok(warnings.some((text) => /Kept a batch aside/.test(text)));
}
