import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { loadGatewayConfig } from '../../src/config/loader.js';
import { Gateway } from '../../src/gateway/gateway.js';
import { silentLog } from '../../src/lib/log.js';
import { freePort } from '../../src/sim/free-port.js';
import { client, RawClient } from '../helpers/broker.js';
import { configFile } from '../helpers/config-file.js';
import { openCloud } from '../helpers/uplink.js';
import { until } from '../helpers/wait.js';

/** More than the smallest spool holds. */
const MESSAGES = 80;
const PAYLOAD = Buffer.alloc(64 * 1024, 'x');

/** A gateway with the smallest spool there is, and with a cloud that is not there yet. */
async function openGateway(t: TestContext, whenFull: string) {
  const cloudPort = await freePort();
  const text = JSON.stringify({
    gateway: { id: 'full' },
    broker: { listeners: [{ url: 'mqtt://127.0.0.1:0', anonymous: true }], whenFull },
    bridge: { topics: ['bridged/#'] },
    spool: { bytesMax: '4MiB', diskFreeMin: '0B' },
    upstream: {
      url: `mqtt://127.0.0.1:${cloudPort}`,
      backoff: { min: '20ms', max: '100ms' },
      onNoSubscribers: 'accept',
    },
  });
  const gateway = await Gateway.open(loadGatewayConfig(configFile(t, text)), silentLog);
  t.after(() => gateway.close(AbortSignal.abort()));
  const url = gateway.addresses.mqtt[0] as string;
  return { gateway, cloudPort, url, port: Number(new URL(url).port) };
}

/** One after the other, because what is on its way to the disk is not counted yet; what finds no room is not waited for. */
async function publishAll(raw: RawClient, gateway: Gateway): Promise<void> {
  const answered = () => raw.packets.filter(({ cmd }) => cmd === 'puback').length;
  for (let id = 1; id <= MESSAGES; id++) {
    raw.publish('bridged/x', PAYLOAD, 1, id);
    await until('an answer', async () => answered() === id || (await gateway.status()).spool.state === 'full');
  }
}

for (const version of [4, 5]) {
  test(`a full spool holds acknowledgements back and nothing else, and the cloud lets them go (version ${version})`, async (t) => {
    const { gateway, cloudPort, port, url } = await openGateway(t, 'stall');
    const raw = await RawClient.connect(t, port, 'publisher', { version });
    await publishAll(raw, gateway);
    await until('it is full', async () => (await gateway.status()).spool.state === 'full');
    const acked = () => raw.packets.filter(({ cmd }) => cmd === 'puback').length;
    const ordinary = await client(t, { url }, { protocolVersion: version as 4, keepalive: 1 });
    const published = ordinary.publishAsync('bridged/y', 'waits', { qos: 1 });
    let pings = 0;
    ordinary.on('packetreceive', ({ cmd }) => {
      if (cmd === 'pingresp') pings++;
    });
    await until('an ordinary client has had its PING answered three times', () => pings === 3);
    await raw.ping();
    const before = acked();
    assert.ok(before > 0 && before < MESSAGES, `${before} are in`);
    const plant = await RawClient.connect(t, port, 'plant');
    plant.publish('local/x', 'stays here', 1, 1);
    await plant.next('puback');
    assert.deepEqual([acked(), ordinary.connected], [before, true]);
    await openCloud(t, { port: cloudPort });
    const ids: number[] = [];
    while (ids.length < MESSAGES) ids.push((await raw.next('puback')).messageId);
    assert.deepEqual(
      ids,
      Array.from({ length: MESSAGES }, (_, i) => i + 1),
    );
    await published;
    await until('all is in the cloud', async () => (await gateway.status()).spool.acknowledged === MESSAGES + 1);
    const { broker, spool } = await gateway.status();
    assert.deepEqual([spool.received, spool.balanced], [MESSAGES + 1, true]);
    assert.ok(Object.values(broker.dropped).every((count) => count === 0));
  });
}

test('where it is configured, clients of version 5 are told 0x97 and those of 3.1.1 wait', async (t) => {
  const { gateway, cloudPort, port } = await openGateway(t, 'refuse');
  const raw = await RawClient.connect(t, port, 'publisher', { version: 5 });
  await publishAll(raw, gateway);
  const codes: number[] = [];
  while (codes.length < MESSAGES) codes.push((await raw.next('puback')).reasonCode ?? 0);
  const refused = codes.filter((code) => code === 0x97).length;
  assert.ok(refused > 0 && codes.every((code) => code === 0 || code === 0x97));
  raw.publish('bridged/x', PAYLOAD, 2, 1);
  assert.equal((await raw.next('pubrec')).reasonCode, 0x97);
  const old = await RawClient.connect(t, port, 'old');
  old.publish('bridged/x', PAYLOAD, 1, 1);
  await old.ping();
  assert.deepEqual(old.packets, []);
  await openCloud(t, { port: cloudPort });
  await old.next('puback');
  // The id that was refused is free for another message.
  raw.publish('bridged/x', PAYLOAD, 2, 1);
  assert.equal((await raw.next('pubrec')).reasonCode ?? 0, 0);
  const { broker, spool } = await gateway.status();
  assert.equal(broker.dropped.refused, refused + 1);
  assert.equal(spool.received, MESSAGES - refused + 2, 'what was refused is not stored');
});
