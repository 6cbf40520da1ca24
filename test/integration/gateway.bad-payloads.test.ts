/** What plants really publish into the topics of readings: none of it may be lost, changed, or stop anything else. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { FaultBroker } from '../../src/sim/cloud/fault-broker.js';
import { freePort } from '../../src/sim/free-port.js';
import { client, RawClient } from '../helpers/broker.js';
import { historianFile, openGateway, openIngestProgram, spoolFile } from '../helpers/chain.js';
import { ask } from '../helpers/historian.js';
import { tempDir } from '../helpers/tmp.js';
import { until } from '../helpers/wait.js';

const KIB = 1024;
const BAD: Readonly<Record<string, string | Buffer>> = {
  'no-json': 'temperature=21,5°C',
  'a-number': '21.5',
  'time-as-text': '{"ts":"2026-01-01T00:00:00Z","value":1}',
  'time-missing': '{"value":1}',
  'value-missing': '{"ts":1767225600000}',
  'integer-of-65-bits': '{"ts":1767225600000,"value":18446744073709551617}',
  'number-out-of-range': '{"ts":1767225600000,"value":1e999}',
  'bare-nan': '{"ts":1767225600000,"value":NaN}',
  'duplicate-key': '{"ts":1767225600000,"value":1,"value":2}',
  'extra-key': '{"ts":1767225600000,"value":1,"unit":"°C"}',
  'cut-off': '{"ts":1767225600000,"val',
  'something-behind': '{"ts":1767225600000,"value":1} ',
  nothing: '',
  'one-zero-byte': Buffer.from([0]),
  'no-utf-8': Buffer.from('{"ts":1767225600000,"value":"\xe9\xff"}', 'latin1'),
  large: randomBytes(200 * KIB),
};
/** A blank behind the brace is no harm. */
const STILL_A_READING = new Set(['something-behind']);

test('payloads that are no readings are acknowledged, and arrive byte for byte', async (t) => {
  const dir = tempDir(t);
  const cloud = await FaultBroker.open({ port: 0 });
  t.after(() => cloud.close());
  const ingest = await openIngestProgram(t, dir, cloud.port);
  const gateway = await openGateway(t, { dir, cloud: cloud.port, upstream: { onNoSubscribers: 'hold' } });
  const url = (await gateway.ready()).mqtt[0]!;
  for (const protocolVersion of [4, 5] as const) {
    const publisher = await client(t, { url }, { protocolVersion });
    // Resolves with the PUBACK.
    for (const [name, payload] of Object.entries(BAD))
      await publisher.publishAsync(`plant/v${protocolVersion}/${name}`, payload, { qos: 1 });
    await publisher.publishAsync(`plant/v${protocolVersion}/good`, '{"ts":1767225600000,"value":1}', { qos: 1 });
  }
  const { state, causes, spool } = await gateway.status();
  assert.equal(state, 'degraded');
  assert.match(
    causes.join('\n'),
    /^30 messages in reading topics are no readings and travel as they are \(plant\/v5\/large: /m,
  );
  assert.equal(spool.received, 34);

  await until('everything to arrive', async () => (await ingest.status()).rows === 34);
  const { opaque, stored, deadBatches, quarantined } = await ingest.status();
  assert.deepEqual([opaque, stored, deadBatches, quarantined], [30, 4, 0, 0]);
  const kept = ask<{ topic: string; payload: Buffer }>(
    historianFile(dir),
    'SELECT topic, payload FROM opaque ORDER BY seq',
  );
  const sent = [4, 5].flatMap((version) =>
    Object.entries(BAD)
      .filter(([name]) => !STILL_A_READING.has(name))
      .map(([name, payload]) => ({ topic: `plant/v${version}/${name}`, payload: Buffer.from(payload) })),
  );
  assert.deepEqual(
    kept.map(({ topic }) => topic),
    sent.map(({ topic }) => topic),
  );
  for (const [i, { topic, payload }] of sent.entries()) assert.ok(kept[i]!.payload.equals(payload), topic);
  await until('the spool to be empty', async () => (await gateway.status()).spool.rows === 0);
  assert.equal((await gateway.status()).spool.dead, 0);
  assert.equal((await gateway.end()).code, 0, gateway.stderr);
  assert.equal((await ingest.end()).code, 0, ingest.stderr);
});

test('a packet over the limit ends its connection and no other', async (t) => {
  const dir = tempDir(t);
  const broker = { packetBytesMax: '4KiB' };
  const gateway = await openGateway(t, { dir, cloud: await freePort(), broker });
  const url = (await gateway.ready()).mqtt[0]!;
  const bystander = await client(t, { url }, { protocolVersion: 5 });
  for (const version of [4, 5]) {
    const glutton = await RawClient.connect(t, Number(new URL(url).port), `glutton-${version}`, { version });
    glutton.publish('plant/a/small', 'fits', 1, 1);
    await glutton.next('puback');
    glutton.publish('plant/a/large', randomBytes(5 * KIB), 1, 2);
    if (version === 5) assert.equal((await glutton.next('disconnect')).reasonCode, 0x95);
    await glutton.gone();
    assert.deepEqual(glutton.packets, []);
    await bystander.publishAsync('plant/a/after', `v${version}`, { qos: 1 });
  }
  assert.equal(bystander.connected, true);
  assert.equal((await gateway.end()).code, 0, gateway.stderr);
  const topics = ask<{ topic: string }>(spoolFile(dir), 'SELECT topic FROM spool ORDER BY seq').map(
    ({ topic }) => topic,
  );
  assert.deepEqual(topics, ['plant/a/small', 'plant/a/after', 'plant/a/small', 'plant/a/after']);
});
